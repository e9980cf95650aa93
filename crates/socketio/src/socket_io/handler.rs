//! Interface that the application implements.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::Socket;
use crate::{ClientInfo, DisconnectReason};

/// Future of a handler. The next packet of the session waits for it.
pub type HandlerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Callbacks of the application.
///
/// The calls for one session never overlap, except [`SocketHandler::on_pong`], [`SocketHandler::on_detached`] and
/// [`SocketHandler::on_disconnected`], which report what happens meanwhile. Methods that return no future must not
/// block.
pub trait SocketHandler: Send + Sync + Sized + 'static {
    /// State that the application keeps for a socket.
    type State: Send + Sync + 'static;

    /// Decides about a CONNECT. The future is dropped after the connect timeout. If it returns a state,
    /// [`SocketHandler::on_connected`] and later [`SocketHandler::on_disconnected`] are called, even if the client has
    /// disconnected meanwhile.
    fn on_connect(
        self: &Arc<Self>,
        request: ConnectRequest,
    ) -> impl Future<Output = Result<Self::State, ConnectError>> + Send;

    /// The CONNECT reply is queued. The returned future is completed before the first event of the socket.
    fn on_connected(self: &Arc<Self>, _socket: &Arc<Socket<Self>>) -> Option<HandlerFuture> {
        None
    }

    /// Called for each event, one after the other per session. Return `None` if the event is handled, or a future; the
    /// next packet of this session waits for it. Events that are still queued when the client disconnects are handled
    /// before [`SocketHandler::on_detached`] and [`SocketHandler::on_disconnected`], for at most ten seconds, unless
    /// the server shuts down, the handler disconnects the socket, or the client recovers the socket first.
    fn on_event(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self>>,
        event: &IncomingEvent<'_>,
    ) -> Option<HandlerFuture>;

    /// The client answered a ping.
    fn on_pong(self: &Arc<Self>, _socket: &Arc<Socket<Self>>) {}

    /// The connection was lost, and the socket is held for recovery: events sent to it are buffered. Called again if
    /// the connection of a recovering client is lost before its socket is recovered.
    fn on_detached(self: &Arc<Self>, _socket: &Arc<Socket<Self>>, _reason: DisconnectReason) {}

    /// A client wants to recover its socket. `Ok(true)`: it gets the socket and the missed events. `Ok(false)`: it gets
    /// a new socket. An error rejects the CONNECT, and the socket stays detached.
    fn on_recover(
        self: &Arc<Self>,
        _socket: &Arc<Socket<Self>>,
        _request: ConnectRequest,
    ) -> impl Future<Output = Result<bool, ConnectError>> + Send {
        async { Ok(true) }
    }

    /// The socket has ended. Called exactly once for every socket that was connected.
    fn on_disconnected(self: &Arc<Self>, socket: &Arc<Socket<Self>>, reason: DisconnectReason);
}

/// CONNECT packet of a client.
#[derive(Debug, Clone)]
pub struct ConnectRequest {
    /// Id that the socket will have.
    pub id: String,
    /// Namespace, with its leading slash.
    pub namespace: String,
    /// `auth` of the client: a JSON object.
    pub auth: Option<Box<RawValue>>,
    /// The client, as described by its first request.
    pub client: Arc<ClientInfo>,
}

/// Event of a client. The arguments are slices of the packet's text.
#[derive(Debug)]
pub struct IncomingEvent<'a> {
    /// Name of the event.
    pub name: &'a str,
    /// JSON text of the first argument.
    pub first_arg: Option<&'a str>,
    /// JSON text of all arguments, separated by commas, in the form that [`EncodedEvent::new`](super::EncodedEvent::new)
    /// and [`Socket::ack`] take.
    pub args: &'a str,
    /// Id for [`Socket::ack`], if the client requests an acknowledgement.
    pub ack_id: Option<u64>,
    /// Binary attachments that placeholders in the arguments refer to.
    pub attachments: &'a [Bytes],
}

/// Body of a CONNECT_ERROR packet: the client is rejected.
#[derive(Debug, Clone)]
pub struct ConnectError {
    /// Object for the client: `{"message": …, "data"?: …}`.
    pub payload: Box<RawValue>,
}
