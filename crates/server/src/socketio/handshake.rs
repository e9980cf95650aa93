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
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::ids::{DeviceId, SocketId, UserId};
use parlor_chat::presence::Device;
use parlor_chat::sessions::SessionEndHandler;
use parlor_socketio::{ConnectError, ConnectRequest};
use serde_json::value::{RawValue, to_raw_value};

use super::bodies::{ConnectErrorBody, Handshake};
use super::dispatch;
use super::session_end::{SessionBinding, SessionEndCloser};
use super::socket_state::{UserSocketMut, UserSocketState};
use super::users::SocketReservation;
use super::{GatewaySocket, SocketIoGateway};
use crate::api_error::ApiError;
use crate::app_state::resolve_acting_user;

impl SocketIoGateway {
    /// Accepts a new socket.
    pub(super) async fn accept_socket(
        self: &Arc<Self>,
        request: ConnectRequest,
    ) -> Result<UserSocketState, ApiError> {
        self.check_handshake_allowed(&request)?;
        let chat = self.app.chat()?;
        let handshake = parse_handshake(&request)?;
        self.check_resume_size(&handshake.resume)?;
        let caller = self.authenticate(&request, &handshake).await?;
        let user = caller.require_user()?.clone();
        let device = device_of(&user, &request, handshake.device_id.as_deref())?;
        let named = handshake.device_id.as_ref().map(|_| &device.id);
        let closer = SessionEndCloser::of(self);
        let on_end = Arc::clone(&closer) as Arc<dyn SessionEndHandler>;
        let (caller, registration) = self.app.admit_connection(caller, named, on_end).await?;
        let session = SessionBinding {
            closer,
            _registration: registration,
        };
        let reservation = SocketReservation::reserve(self, &user).await?;
        let device = Arc::new(device);
        match chat.presence().connect(Arc::clone(&device)).await {
            Ok(_) => {}
            // Presence registers the device when the store accepts it again.
            Err(error) if error.is_store_outage() => {}
            Err(error) => {
                let _ = Box::pin(chat.presence().disconnect(&device)).await;
                return Err(error.into());
            }
        }
        let resume = (!handshake.resume.is_empty()).then(|| handshake.resume.into_iter().collect());
        let state = UserSocketState {
            device,
            is_service: caller.role == Role::Service,
            user: reservation.into_user(),
            session,
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
        request: ConnectRequest,
    ) -> Result<bool, ApiError> {
        self.check_handshake_allowed(&request)?;
        let chat = self.app.chat()?;
        let handshake = parse_handshake(&request)?;
        let caller = self.authenticate(&request, &handshake).await?;
        let state = socket.state();
        let same_device = handshake
            .device_id
            .is_none_or(|id| id == state.device.id.as_str());
        let same_role = state.is_service == (caller.role == Role::Service);
        if caller.user.as_ref() != Some(&state.device.user) || !same_device || !same_role {
            return Ok(false);
        }
        let caller = self.app.check_session(caller).await?;
        let presence_lock = state.presence_lock();
        let _guard = presence_lock.lock().await;
        {
            let mutable = state.mutable.lock();
            if mutable.is_disconnected || mutable.close_reason.is_some() {
                return Ok(false);
            }
        }
        state.is_detached.store(false, Ordering::Release);
        self.set_token_expiry(state, &caller);
        state.mutable.lock().caller = Arc::new(caller);
        match chat.presence().connect(Arc::clone(&state.device)).await {
            Err(error) if !error.is_store_outage() => Err(error.into()),
            _ => Ok(true),
        }
    }

    fn check_handshake_allowed(&self, request: &ConnectRequest) -> Result<(), ApiError> {
        if request.namespace != "/" {
            return Err(ApiError::new(ErrorCode::NotFound, "Invalid namespace"));
        }
        if self.app.is_shutting_down() {
            let text = "the server is shutting down; reconnect";
            return Err(ApiError::new(ErrorCode::ShuttingDown, text));
        }
        let Some(address) = request.client.address else {
            return Ok(());
        };
        self.handshake_limiter
            .try_acquire(address, self.elapsed())
            .map_err(ApiError::rate_limited)
    }

    async fn authenticate(
        &self,
        request: &ConnectRequest,
        handshake: &Handshake,
    ) -> Result<Caller, ApiError> {
        let address = request.client.address;
        let caller = self.app.verify_token(&handshake.token, address).await?;
        resolve_acting_user(caller, handshake.user_id.as_deref())
    }
}

fn parse_handshake(request: &ConnectRequest) -> Result<Handshake, ApiError> {
    match request.auth.as_deref().map(RawValue::get) {
        None | Some("null") => Ok(Handshake::default()),
        Some(auth) => dispatch::parse_json(auth).map_err(|error| ApiError {
            detail: format!("auth: {}", error.detail),
            ..error
        }),
    }
}

fn device_of(
    user: &UserId,
    request: &ConnectRequest,
    named: Option<&str>,
) -> Result<Device, ApiError> {
    let socket = SocketId::new(&request.id).map_err(Error::from)?;
    let mut device = Device::with_socket(user.clone(), socket);
    if let Some(named) = named {
        device.id = DeviceId::new(named).map_err(Error::from)?;
    }
    Ok(match &request.client.user_agent {
        Some(user_agent) => device.with_client_info(user_agent),
        None => device,
    })
}

/// Builds the CONNECT_ERROR of a rejected handshake.
pub(super) fn to_connect_error(error: ApiError) -> ConnectError {
    let body = ConnectErrorBody {
        message: error.detail.clone(),
        code: error.code.name(),
        data: error.into(),
    };
    let payload = to_raw_value(&body).expect("errors contain only types that JSON supports");
    ConnectError { payload }
}
