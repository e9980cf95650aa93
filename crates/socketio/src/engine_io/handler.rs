//! Interface of the protocol above Engine.IO.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::EngineIoSession;
use crate::DisconnectReason;

/// Receives the messages of sessions. Its methods must not block.
pub trait SessionHandler: Send + Sync + Sized + 'static {
    /// State that the handler keeps for a session.
    type State: Default + Send + Sync + 'static;

    /// A session was opened. Only tests implement it.
    fn on_open(self: &Arc<Self>, _session: &Arc<EngineIoSession<Self>>) {}

    /// A text message arrived. Returns false if the next message must wait until [`SessionHandler::poll_inbox_ready`]
    /// is ready.
    fn on_text(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, text: &str) -> bool;

    /// A binary message arrived. Returns the same as [`SessionHandler::on_text`].
    fn on_binary(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, bytes: Bytes) -> bool;

    /// Ready when the inbox has room for a message.
    fn poll_inbox_ready(
        self: &Arc<Self>,
        _session: &Arc<EngineIoSession<Self>>,
        _cx: &mut Context<'_>,
    ) -> Poll<()> {
        Poll::Ready(())
    }

    /// True if the inbox is full. Then the client is not read, so an unanswered ping does not count.
    fn is_inbox_full(&self, _session: &EngineIoSession<Self>) -> bool {
        false
    }

    /// The client answered a ping.
    fn on_pong(self: &Arc<Self>, _session: &Arc<EngineIoSession<Self>>) {}

    /// The connect timeout has passed since the session was opened or
    /// [`start_connect_deadline`](crate::engine_io::EngineIoServer::start_connect_deadline) was called.
    fn on_connect_deadline(self: &Arc<Self>, _session: &Arc<EngineIoSession<Self>>) {}

    /// Called at each tick of the timers.
    fn on_tick(self: &Arc<Self>) {}

    /// The session has closed. Called exactly once per session.
    fn on_close(
        self: &Arc<Self>,
        _session: &Arc<EngineIoSession<Self>>,
        _reason: DisconnectReason,
    ) {
    }
}
