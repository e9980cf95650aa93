//! What the Socket.IO server tells and asks of the gateway.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parlor_chat::code::Code;
use parlor_socketio::{App, Connect, Event, Reason, Refused, Work};

use super::call::Call;
use super::errands::Errand;
use super::state::State;
use super::words::ClosedReason;
use super::{Gateway, Socket, door, joining, table};
use crate::wire::Refusal;

/// Refused events in a row after which a socket is cut.
const MOST_REFUSED: u32 = 100;

impl App for Gateway {
    type State = State;

    async fn connect(self: &Arc<Self>, asking: Connect) -> Result<State, Refused> {
        let _place = self.door.acquire().await;
        self.welcome(asking).await.map_err(door::refused)
    }

    fn connected(self: &Arc<Self>, socket: &Arc<Socket>) -> Option<Work> {
        let state = socket.state();
        state.person.seat(socket);
        if let Some(reason) = state.line.slot.fill(socket) {
            self.close(socket, reason);
            return None;
        }
        if self.is_draining() {
            // It came while the others were told.
            self.close_with(socket, ClosedReason::Shutdown, Some(0));
            return None;
        }
        let resume = state.inner.lock().resume.take()?;
        let (gateway, socket) = (Arc::clone(self), Arc::clone(socket));
        Some(Box::pin(joining::resume(gateway, socket, resume)))
    }

    fn event(self: &Arc<Self>, socket: &Arc<Socket>, event: &Event<'_>) -> Option<Work> {
        let call = Call {
            gateway: self,
            socket,
            event,
        };
        if let Err(wait) = self.may_say(socket) {
            let text = format!("this socket sends too many events, try again in {wait} ms");
            let refusal = Refusal {
                retry_after_ms: Some(wait),
                ..Refusal::new(Code::RateLimited, text)
            };
            call.answer().refused(socket, refusal);
            if socket.state().refused.fetch_add(1, Ordering::Relaxed) >= MOST_REFUSED {
                socket.disconnect(Reason::Flood);
            }
            return None;
        }
        let name = event.name();
        match table::EVENTS.iter().find(|known| known.name == name) {
            Some(known) => (known.take)(&call),
            None => {
                let text = format!("there is no event `{}`", name.escape_debug());
                call.answer()
                    .refused(socket, Refusal::new(Code::NotFound, text));
                None
            }
        }
    }

    fn alive(self: &Arc<Self>, socket: &Arc<Socket>) {
        self.beat(socket);
    }

    fn detached(self: &Arc<Self>, socket: &Arc<Socket>, _: Reason) {
        socket.state().detached.store(true, Ordering::Release);
        if !self.is_draining() {
            self.errands.add(Errand::Lose(Arc::clone(socket)));
        }
    }

    async fn recover(
        self: &Arc<Self>,
        socket: &Arc<Socket>,
        asking: Connect,
    ) -> Result<bool, Refused> {
        let _place = self.door.acquire().await;
        let back = self.welcome_back(socket, asking).await;
        back.map_err(door::refused)
    }

    fn disconnected(self: &Arc<Self>, socket: &Arc<Socket>, reason: Reason) {
        let state = socket.state();
        let (joined, closed) = {
            let mut inner = state.inner.lock();
            inner.over = true;
            inner.watching = None;
            inner.resume = None;
            (std::mem::take(&mut inner.joined), inner.closed)
        };
        for conversation in joined.iter() {
            self.rooms.leave(conversation, socket);
        }
        state.person.leave(socket);
        // The end of the node is no goodbye of its clients: they have the grace time to come back elsewhere.
        if self.is_draining() {
            return;
        }
        let goodbye = match closed {
            Some(ClosedReason::Blocked | ClosedReason::Logout | ClosedReason::Replaced) => true,
            Some(ClosedReason::Expired | ClosedReason::Shutdown) => false,
            None => reason == Reason::ClientLeft,
        };
        let socket = Arc::clone(socket);
        self.errands.add(match goodbye {
            true => Errand::Leave(socket),
            false => Errand::Lose(socket),
        });
    }
}
