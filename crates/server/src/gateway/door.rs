//! The handshake: who comes in, and what they find.
//!
//! Always true:
//! 1. A socket listens for the end of its session before the session is asked for, so no block in between is missed.
//! 2. Who is refused, or gives up, leaves nothing behind but a device that is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use parlor_chat::access::{Caller, Role};
use parlor_chat::code::Code;
use parlor_chat::error::Error;
use parlor_chat::ids::{DeviceId, SocketId, UserId};
use parlor_chat::presence::Device;
use parlor_chat::sessions::Ended;
use parlor_socketio::{Connect, Refused};
use serde_json::value::{RawValue, to_raw_value};

use super::call;
use super::people::Place;
use super::session::{Line, Slot};
use super::state::{Inner, State};
use super::words::{ConnectRefused, Failure, Handshake};
use super::{Gateway, Socket};
use crate::wire::Refusal;

/// Most bytes of what a client says it is.
const MOST_INFO: usize = 256;

impl Gateway {
    /// Lets a client in.
    pub(super) async fn welcome(self: &Arc<Self>, asking: Connect) -> Result<State, Refusal> {
        self.may_knock(&asking)?;
        let chat = self.open()?;
        let shown = handshake(&asking)?;
        self.may_resume(&shown.resume)?;
        let caller = self.recognised(&asking, &shown).await?;
        let user = caller.user()?.clone();
        let device = device(&user, &asking, shown.device_id.as_deref())?;
        let named = shown.device_id.as_ref().map(|_| &device.id);
        let slot = Slot::of(self);
        let ended = Arc::clone(&slot) as Ended;
        let entered = self.app.enter(caller, named, ended);
        let (caller, attached) = entered.await?;
        let line = Line {
            slot,
            _attached: attached,
        };
        let place = Place::take(self, &user).await?;
        let device = Arc::new(device);
        match chat.presence().connect(Arc::clone(&device)).await {
            Ok(_) => {}
            // It is registered when the store is back.
            Err(error) if error.is_away() => {}
            Err(error) => {
                let _ = Box::pin(chat.presence().leave(&device)).await;
                return Err(error.into());
            }
        }
        let resume = (!shown.resume.is_empty()).then(|| shown.resume.into_iter().collect());
        let state = State {
            device,
            service: caller.role == Role::Service,
            person: place.keep(),
            line,
            used: AtomicU64::new(0),
            refused: AtomicU32::new(0),
            ends: AtomicU64::new(0),
            checked: AtomicU32::new(self.seconds()),
            detached: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                caller: Arc::new(caller.clone()),
                telling: None,
                joined: Default::default(),
                removed: None,
                resume,
                watching: None,
                closed: None,
                over: false,
            }),
        };
        self.lasts(&state, &caller);
        Ok(state)
    }

    /// Lets a client back to its socket; false if it is another one.
    pub(super) async fn welcome_back(
        self: &Arc<Self>,
        socket: &Arc<Socket>,
        asking: Connect,
    ) -> Result<bool, Refusal> {
        self.may_knock(&asking)?;
        let chat = self.open()?;
        let shown = handshake(&asking)?;
        let caller = self.recognised(&asking, &shown).await?;
        let state = socket.state();
        let same_device = shown
            .device_id
            .is_none_or(|it| it == state.device.id.as_str());
        let same_role = state.service == (caller.role == Role::Service);
        if caller.user.as_ref() != Some(&state.device.user) || !same_device || !same_role {
            return Ok(false);
        }
        let caller = self.app.with_session(caller).await?;
        let telling = state.telling();
        let _telling = telling.lock().await;
        {
            let inner = state.inner.lock();
            if inner.over || inner.closed.is_some() {
                return Ok(false);
            }
        }
        state.detached.store(false, Ordering::Release);
        self.lasts(state, &caller);
        state.inner.lock().caller = Arc::new(caller);
        match chat.presence().connect(Arc::clone(&state.device)).await {
            Err(error) if !error.is_away() => Err(error.into()),
            _ => Ok(true),
        }
    }

    fn may_knock(&self, asking: &Connect) -> Result<(), Refusal> {
        if asking.namespace != "/" {
            return Err(Refusal::new(Code::NotFound, "Invalid namespace"));
        }
        if self.app.is_stopping() {
            let text = "the server is about to end; connect again";
            return Err(Refusal::new(Code::ShuttingDown, text));
        }
        let Some(address) = asking.client.address else {
            return Ok(());
        };
        self.arrivals
            .one(address, self.micros())
            .map_err(|ms| Refusal {
                retry_after_ms: Some(ms),
                ..Refusal::new(
                    Code::RateLimited,
                    format!("too many handshakes from this address, try again in {ms} ms"),
                )
            })
    }

    async fn recognised(&self, asking: &Connect, shown: &Handshake) -> Result<Caller, Refusal> {
        let caller = self
            .app
            .verified(&shown.token, asking.client.address)
            .await?;
        match &shown.user_id {
            Some(user) => Ok(caller.acting_for(user)?),
            None => Ok(caller),
        }
    }
}

fn handshake(asking: &Connect) -> Result<Handshake, Refusal> {
    match asking.auth.as_deref().map(RawValue::get) {
        None | Some("null") => Ok(Handshake::default()),
        Some(auth) => call::read(auth).map_err(|refusal| Refusal {
            detail: format!("auth: {}", refusal.detail),
            ..refusal
        }),
    }
}

fn device(user: &UserId, asking: &Connect, named: Option<&str>) -> Result<Device, Refusal> {
    let socket = SocketId::new(&asking.id).map_err(Error::from)?;
    let mut device = Device::socket(user.clone(), socket);
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

/// What a client hears that is not let in.
pub(super) fn refused(refusal: Refusal) -> Refused {
    let told = ConnectRefused {
        message: refusal.detail.clone(),
        code: refusal.code.name(),
        data: Failure::from(refusal),
    };
    let payload = to_raw_value(&told).expect("texts and numbers are JSON");
    Refused { payload }
}
