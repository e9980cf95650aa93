//! Handshake of a socket: rate limit, token, session, presence.
//!
//! Invariants:
//! 1. A socket is registered for the end of its session before the session is checked, so a block in between is not
//!    missed.
//! 2. A handshake that is rejected or cancelled leaves nothing behind, except a device whose connection counts as lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::api::error::Error;
use parlor_chat::api::error_code::Code;
use parlor_chat::ids::{DeviceId, SocketId, UserId};
use parlor_chat::presence::Device;
use parlor_chat::sessions::Ended;
use parlor_socketio::{ConnectError, ConnectRequest};
use serde_json::value::{RawValue, to_raw_value};

use super::bodies::{ConnectRefused, Failure, Handshake};
use super::dispatch;
use super::session_end::{SessionBinding, SessionEndCloser};
use super::socket_state::{UserSocketMut, UserSocketState};
use super::users::SocketReservation;
use super::{GatewaySocket, SocketIoGateway};
use crate::api_error::ApiError;

/// Maximum bytes of the client description (user agent).
const MOST_INFO: usize = 256;

impl SocketIoGateway {
    /// Accepts a new socket.
    pub(super) async fn accept_socket(
        self: &Arc<Self>,
        asking: ConnectRequest,
    ) -> Result<UserSocketState, ApiError> {
        self.check_handshake_allowed(&asking)?;
        let chat = self.chat_or_error()?;
        let shown = parse_handshake(&asking)?;
        self.check_resume_size(&shown.resume)?;
        let caller = self.authenticate(&asking, &shown).await?;
        let user = caller.user()?.clone();
        let device = device_of(&user, &asking, shown.device_id.as_deref())?;
        let named = shown.device_id.as_ref().map(|_| &device.id);
        let slot = SessionEndCloser::of(self);
        let ended = Arc::clone(&slot) as Ended;
        let entered = self.app.admit_connection(caller, named, ended);
        let (caller, attached) = entered.await?;
        let line = SessionBinding {
            slot,
            _attached: attached,
        };
        let place = SocketReservation::reserve(self, &user).await?;
        let device = Arc::new(device);
        match chat.presence().connect(Arc::clone(&device)).await {
            Ok(_) => {}
            // Presence registers the device when the store is available again.
            Err(error) if error.is_store_unavailable() => {}
            Err(error) => {
                let _ = Box::pin(chat.presence().leave(&device)).await;
                return Err(error.into());
            }
        }
        let resume = (!shown.resume.is_empty()).then(|| shown.resume.into_iter().collect());
        let state = UserSocketState {
            device,
            is_service: caller.role == Role::Service,
            user: place.into_user(),
            session: line,
            event_rate_state: AtomicU64::new(0),
            rejected_events: AtomicU32::new(0),
            token_expires_ms: AtomicU64::new(0),
            session_checked_secs: AtomicU32::new(self.elapsed_secs()),
            is_detached: AtomicBool::new(false),
            mutable: Mutex::new(UserSocketMut {
                caller: Arc::new(caller.clone()),
                presence_lock: None,
                joined: Default::default(),
                last_removed: None,
                resume_positions: resume,
                presence_task: None,
                close_reason: None,
                is_disconnected: false,
            }),
        };
        self.set_token_expiry(&state, &caller);
        Ok(state)
    }

    /// Accepts a client that recovers its socket. False if user, device or role differ, or if the socket was closed:
    /// then the client gets a new socket.
    pub(super) async fn accept_recovered_socket(
        self: &Arc<Self>,
        socket: &Arc<GatewaySocket>,
        asking: ConnectRequest,
    ) -> Result<bool, ApiError> {
        self.check_handshake_allowed(&asking)?;
        let chat = self.chat_or_error()?;
        let shown = parse_handshake(&asking)?;
        let caller = self.authenticate(&asking, &shown).await?;
        let state = socket.state();
        let same_device = shown
            .device_id
            .is_none_or(|it| it == state.device.id.as_str());
        let same_role = state.is_service == (caller.role == Role::Service);
        if caller.user.as_ref() != Some(&state.device.user) || !same_device || !same_role {
            return Ok(false);
        }
        let caller = self.app.check_session(caller).await?;
        let telling = state.presence_lock();
        let _telling = telling.lock().await;
        {
            let inner = state.mutable.lock();
            if inner.is_disconnected || inner.close_reason.is_some() {
                return Ok(false);
            }
        }
        state.is_detached.store(false, Ordering::Release);
        self.set_token_expiry(state, &caller);
        state.mutable.lock().caller = Arc::new(caller);
        match chat.presence().connect(Arc::clone(&state.device)).await {
            Err(error) if !error.is_store_unavailable() => Err(error.into()),
            _ => Ok(true),
        }
    }

    fn check_handshake_allowed(&self, asking: &ConnectRequest) -> Result<(), ApiError> {
        if asking.namespace != "/" {
            return Err(ApiError::new(Code::NotFound, "Invalid namespace"));
        }
        if self.app.is_shutting_down() {
            let text = "the server is shutting down; reconnect";
            return Err(ApiError::new(Code::ShuttingDown, text));
        }
        let Some(address) = asking.client.address else {
            return Ok(());
        };
        self.handshake_limiter
            .try_acquire(address, self.elapsed_micros())
            .map_err(|ms| ApiError {
                retry_after_ms: Some(ms),
                ..ApiError::new(
                    Code::RateLimited,
                    format!("too many handshakes from this address; retry in {ms} ms"),
                )
            })
    }

    async fn authenticate(
        &self,
        asking: &ConnectRequest,
        shown: &Handshake,
    ) -> Result<Caller, ApiError> {
        let caller = self
            .app
            .verified(&shown.token, asking.client.address)
            .await?;
        match &shown.user_id {
            Some(user) => Ok(caller.on_behalf_of(user)?),
            None => Ok(caller),
        }
    }
}

fn parse_handshake(asking: &ConnectRequest) -> Result<Handshake, ApiError> {
    match asking.auth.as_deref().map(RawValue::get) {
        None | Some("null") => Ok(Handshake::default()),
        Some(auth) => dispatch::parse_json(auth).map_err(|refusal| ApiError {
            detail: format!("auth: {}", refusal.detail),
            ..refusal
        }),
    }
}

fn device_of(
    user: &UserId,
    asking: &ConnectRequest,
    named: Option<&str>,
) -> Result<Device, ApiError> {
    let socket = SocketId::new(&asking.id).map_err(Error::from)?;
    let mut device = Device::with_socket(user.clone(), socket);
    if let Some(named) = named {
        device.id = DeviceId::new(named).map_err(Error::from)?;
    }
    device.info = asking.client.user_agent.as_deref().map(short);
    Ok(device)
}

fn short(info: &str) -> String {
    let mut end = info.len().min(MOST_INFO);
    while !info.is_char_boundary(end) {
        end -= 1;
    }
    info[..end].to_owned()
}

/// Builds the CONNECT_ERROR of a rejected handshake.
pub(super) fn to_connect_error(refusal: ApiError) -> ConnectError {
    let told = ConnectRefused {
        message: refusal.detail.clone(),
        code: refusal.code.name(),
        data: Failure::from(refusal),
    };
    let payload = to_raw_value(&told).expect("errors contain only types that JSON supports");
    ConnectError { payload }
}
