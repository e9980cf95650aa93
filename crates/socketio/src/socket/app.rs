//! What an application gives and is given.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{IncomingEvent, Socket};
use crate::{Client, DisconnectReason};

/// Something that takes its time.
pub type HandlerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The application above the sockets.
///
/// Its calls for one connection never overlap, but for [`App::alive`], [`App::detached`] and [`App::disconnected`], which tell what
/// happens meanwhile. None of the calls that return no future may block.
pub trait SocketHandler: Send + Sync + Sized + 'static {
    /// What the application keeps of a socket.
    type State: Send + Sync + 'static;

    /// A client wants to be connected to a namespace. Given up (dropped) after the connect timeout. Who returns a state is told
    /// [`App::connected`] and later [`App::disconnected`] of it, even if the client has gone meanwhile.
    fn on_connect(
        self: &Arc<Self>,
        asking: ConnectRequest,
    ) -> impl Future<Output = Result<Self::State, ConnectError>> + Send;

    /// The client has been told. What is returned runs before the socket's first event.
    fn on_connected(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>) -> Option<HandlerFuture> {
        let _ = socket;
        None
    }

    /// An event. Answer at once, or return work: the next packets of this connection wait for its end. Those that wait when the
    /// client leaves, or is lost, come before [`App::detached`] and [`App::disconnected`], unless that takes longer than ten seconds, the
    /// server stops, or the client comes back for its socket before.
    fn on_event(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self::State>>,
        event: &IncomingEvent<'_>,
    ) -> Option<HandlerFuture>;

    /// The client has answered a ping.
    fn on_pong(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>) {
        let _ = socket;
    }

    /// The connection was lost; the socket is held for recovery: frames sent to it are kept. Told once more of one whose client
    /// was gone again before it had the socket back.
    fn on_detached(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>, reason: DisconnectReason) {
        let _ = (socket, reason);
    }

    /// A client comes back for a held socket. `Ok(true)`: it gets the socket with what it has missed. `Ok(false)`: it is connected anew.
    fn on_recover(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self::State>>,
        asking: ConnectRequest,
    ) -> impl Future<Output = Result<bool, ConnectError>> + Send {
        let _ = (socket, asking);
        async { Ok(true) }
    }

    /// Over for good, exactly once for every socket that was connected.
    fn on_disconnected(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self::State>>,
        reason: DisconnectReason,
    );
}

/// A client that wants to be connected.
#[derive(Debug, Clone)]
pub struct ConnectRequest {
    /// The id its socket will have.
    pub id: String,
    /// The namespace, with its slash.
    pub namespace: String,
    /// What the client gave as `auth`: a JSON object.
    pub auth: Option<Box<RawValue>>,
    /// Who it is.
    pub client: Arc<Client>,
}

/// A client is not let in.
#[derive(Debug, Clone)]
pub struct ConnectError {
    /// The object that the client gets: `{"message": …, "data"?: …}`.
    pub payload: Box<RawValue>,
}
