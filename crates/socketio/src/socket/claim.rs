//! Recovery of a socket by a client that reconnects.
//!
//! Invariant: a socket has at most one claim. A claim that is dropped without a decision returns the socket to the
//! detached sockets, with its old deadline.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::parse_offset;
use super::hub::SocketIoLayer;
use super::one::{Lane, Status};
use super::{Socket, SocketHandler};
use crate::DisconnectReason;
use crate::engine::{EncodedFrame, EngineIoSession};

/// Fields that the JavaScript client adds to `auth` when it reconnects.
#[derive(Deserialize)]
struct RecoveryCredentials<'a> {
    #[serde(borrow)]
    pid: Cow<'a, str>,
    #[serde(borrow, default)]
    offset: Option<Cow<'a, str>>,
}

pub(super) struct RecoveryClaim<A: SocketHandler> {
    hub: Arc<SocketIoLayer<A>>,
    pub(super) socket: Arc<Socket<A::State>>,
    /// Offset of the last event that the client received; `None` if it received none.
    offset: Option<u64>,
    deadline: u64,
    reason: DisconnectReason,
    is_resolved: bool,
}

impl<A: SocketHandler> SocketIoLayer<A> {
    /// Claims the socket that a client wants to recover, if it exists and all missed events are in its replay buffer.
    pub(super) fn claim_for_recovery(
        self: &Arc<Self>,
        namespace: &str,
        auth: Option<&RawValue>,
    ) -> Option<RecoveryClaim<A>> {
        self.detached_sockets.recovery?;
        let auth = auth?.get();
        // Most clients recover nothing; their `auth` is not parsed.
        if !auth.contains("\"pid\"") {
            return None;
        }
        let returning: RecoveryCredentials<'_> = serde_json::from_str(auth).ok()?;
        let offset = match &returning.offset {
            Some(offset) => Some(parse_offset(offset)?),
            None => None,
        };
        let socket = self
            .registry
            .get(Socket::<A::State>::registry_index_of_pid(&returning.pid)?)?;
        let is_its =
            socket.namespace() == namespace && socket.pid().as_deref() == Some(&returning.pid);
        if !is_its {
            return None;
        }
        let (deadline, reason, lane) = {
            let mut link = socket.lock_state();
            match link.status {
                Status::Held(key, reason) => {
                    let deadline = self.detached_sockets.remove(key)?;
                    link.status = Status::Claimed;
                    (deadline, reason, None)
                }
                // The client has noticed the lost connection before the server.
                Status::Live => {
                    link.status = Status::Claimed;
                    (
                        self.detached_sockets.new_deadline(),
                        DisconnectReason::ReplacedByReconnect,
                        link.session.take(),
                    )
                }
                Status::New | Status::Entering | Status::Claimed | Status::Over => return None,
            }
        };
        if let Some(lane) = lane {
            lane.replace(&socket);
            self.app
                .on_detached(&socket, DisconnectReason::ReplacedByReconnect);
        }
        let claim = RecoveryClaim {
            hub: Arc::clone(self),
            socket,
            offset,
            deadline,
            reason,
            is_resolved: false,
        };
        if claim.can_replay() {
            return Some(claim);
        }
        claim.discard();
        None
    }
}

impl<A: SocketHandler> RecoveryClaim<A> {
    fn can_replay(&self) -> bool {
        match &self.socket.lock_state().replay_buffer {
            Some(ring) => ring.after(self.offset).is_some(),
            None => self.offset.is_none(),
        }
    }

    /// Ends the socket, because the client gets a new one.
    pub(super) fn discard(mut self) {
        self.is_resolved = true;
        self.hub
            .end_socket(&self.socket, DisconnectReason::ReplacedByReconnect);
    }

    /// Connects the socket to the session and queues the missed events. If they are not complete any more, or too large
    /// for the send queue, or the handler has disconnected the socket, ends the socket and returns false. If the
    /// session has closed meanwhile, the socket stays detached.
    pub(super) fn resume_on(mut self, session: &Arc<EngineIoSession<SocketIoLayer<A>>>) -> bool {
        let bound = session.engine().options().max_send_queue_bytes;
        let hello = super::connecting::encode_connect_packet(&self.socket);
        {
            let mut links = session.state().lock();
            if links.close_reason.is_some() {
                drop(links);
                // The handler has accepted the recovery, so the loss is reported again.
                self.hub.app.on_detached(&self.socket, self.reason);
                return true;
            }
            let mut link = self.socket.lock_state();
            let missed: Option<Vec<_>> = match &link.replay_buffer {
                Some(ring) => ring
                    .after(self.offset)
                    .map(|missed| missed.cloned().collect()),
                None => self.offset.is_none().then(Vec::new),
            };
            // A replay above the limit of the send queue would abort every session that recovers this socket.
            let fits = |missed: &Vec<Arc<EncodedFrame>>| {
                let size: usize = missed.iter().map(|frame| frame.wire().len()).sum();
                session.send_queue_bytes() + hello.wire().len() + size <= bound
            };
            match missed
                .filter(fits)
                .filter(|_| link.requested_disconnect.is_none())
            {
                Some(missed) => {
                    session.send_frame(&hello);
                    missed.iter().for_each(|frame| session.send_frame(frame));
                    let lane: Arc<dyn Lane<A::State>> = Arc::clone(session) as _;
                    link.session = Some(lane);
                    link.status = Status::Live;
                    links.sockets.push(Arc::clone(&self.socket));
                    self.is_resolved = true;
                }
                None => {
                    drop(link);
                    drop(links);
                    self.discard();
                    return false;
                }
            }
        }
        self.hub.recovered_total.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl<A: SocketHandler> Drop for RecoveryClaim<A> {
    fn drop(&mut self) {
        if !self.is_resolved {
            self.hub
                .hold_for_recovery(&self.socket, self.deadline, self.reason);
        }
    }
}
