//! What an application gives and is given.

use std::pin::Pin;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{Event, Socket};
use crate::{Client, Reason};

/// Something that takes its time.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The application above the sockets.
///
/// Its calls for one connection never overlap, but for [`App::alive`], [`App::detached`] and [`App::disconnected`], which tell what
/// happens meanwhile. None of the calls that return no future may block.
pub trait App: Send + Sync + Sized + 'static {
    /// What the application keeps of a socket.
    type State: Send + Sync + 'static;

    /// A client wants to be connected to a namespace. Given up (dropped) after the connect timeout. Who returns a state is told
    /// [`App::connected`] and later [`App::disconnected`] of it, even if the client has gone meanwhile.
    fn connect(
        self: &Arc<Self>,
        asking: Connect,
    ) -> impl Future<Output = Result<Self::State, Refused>> + Send;

    /// The client has been told. What is returned runs before the socket's first event.
    fn connected(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>) -> Option<Work> {
        let _ = socket;
        None
    }

    /// An event. Answer at once, or return work: the next packets of this connection wait for its end. Those that wait when the
    /// client leaves, or is lost, come before [`App::detached`] and [`App::disconnected`], unless that takes longer than ten seconds, the
    /// server stops, or the client comes back for its socket before.
    fn event(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self::State>>,
        event: &Event<'_>,
    ) -> Option<Work>;

    /// The client has answered a ping.
    fn alive(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>) {
        let _ = socket;
    }

    /// The connection was lost; the socket is held for recovery: frames sent to it are kept. Told once more of one whose client
    /// was gone again before it had the socket back.
    fn detached(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>, reason: Reason) {
        let _ = (socket, reason);
    }

    /// A client comes back for a held socket. `Ok(true)`: it gets the socket with what it has missed. `Ok(false)`: it is connected anew.
    fn recover(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self::State>>,
        asking: Connect,
    ) -> impl Future<Output = Result<bool, Refused>> + Send {
        let _ = (socket, asking);
        async { Ok(true) }
    }

    /// Over for good, exactly once for every socket that was connected.
    fn disconnected(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>, reason: Reason);
}

/// A client that wants to be connected.
#[derive(Debug, Clone)]
pub struct Connect {
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
pub struct Refused {
    /// The object that the client gets: `{"message": …, "data"?: …}`.
    pub payload: Box<RawValue>,
}
