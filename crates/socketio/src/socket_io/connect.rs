//! CONNECT packets.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::timeout;

use super::encoded_event::encode_message;
use super::layer::SocketIoLayer;
use super::socket::{Socket, SocketSid, SocketStatus};
use super::{ConnectError, ConnectRequest, HandlerFuture, SocketHandler};
use crate::DisconnectReason;
use crate::engine_io::{EncodedFrame, EngineIoSession};
use crate::packet::encode::{encode_connect, encode_connect_error};

/// Handles a CONNECT: recovers a socket, creates one, or rejects the client.
pub(super) async fn handle_connect<H: SocketHandler>(
    layer: Arc<SocketIoLayer<H>>,
    session: Arc<EngineIoSession<SocketIoLayer<H>>>,
    namespace: String,
    auth: Option<Box<RawValue>>,
) {
    let connect_timeout = session.engine().options().connect_timeout;
    let request = ConnectRequest {
        id: String::new(),
        namespace: namespace.clone(),
        auth,
        client: Arc::clone(session.client_info()),
    };
    let decision = recover_or_authorize(&layer, &session, request);
    match timeout(connect_timeout, decision).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some((id, state)))) => {
            if let Some(future) = create_socket(&layer, &session, &namespace, id, state) {
                future.await;
            }
        }
        Ok(Err(error)) => {
            let payload = error.payload.get().as_bytes();
            let frame = encode_message(namespace.len() + payload.len(), &[], |out| {
                encode_connect_error(out, &namespace, payload);
            });
            session.send_frame(&Arc::new(frame));
            // The client may send another CONNECT, within the connect timeout.
            session.engine().start_connect_deadline(&session);
        }
        // The connection is closed instead of sending CONNECT_ERROR: Socket.IO clients reconnect by themselves after a
        // lost connection, but not after a CONNECT_ERROR.
        Err(_) => session.close(DisconnectReason::ConnectTimeout),
    }
}

/// Recovers the former socket of the client (`None`), or asks the handler for the state of a new one.
async fn recover_or_authorize<H: SocketHandler>(
    layer: &Arc<SocketIoLayer<H>>,
    session: &Arc<EngineIoSession<SocketIoLayer<H>>>,
    mut request: ConnectRequest,
) -> Result<Option<(SocketSid, H::State)>, ConnectError> {
    if let Some(claim) = layer.claim_for_recovery(&request.namespace, request.auth.as_deref()) {
        request.id = claim.socket.id().to_owned();
        // Boxed to keep this future small: most clients recover nothing.
        if !Box::pin(layer.handler.on_recover(&claim.socket, request.clone())).await? {
            claim.discard();
        } else if claim.resume_on(session) {
            return Ok(None);
        }
    }
    let id = SocketSid::random();
    request.id = id.as_str().to_owned();
    let state = layer.handler.on_connect(request).await?;
    Ok(Some((id, state)))
}

/// Encodes the CONNECT packet of the server.
pub(super) fn encode_connect_packet<H: SocketHandler>(socket: &Socket<H>) -> Arc<EncodedFrame> {
    let pid = socket.pid();
    Arc::new(encode_message(socket.namespace().len() + 64, &[], |out| {
        encode_connect(out, socket.namespace(), socket.id(), pid.as_deref());
    }))
}

/// Creates the socket. Its CONNECT reply is queued before any other packet of the socket.
fn create_socket<H: SocketHandler>(
    layer: &Arc<SocketIoLayer<H>>,
    session: &Arc<EngineIoSession<SocketIoLayer<H>>>,
    namespace: &str,
    id: SocketSid,
    state: H::State,
) -> Option<HandlerFuture> {
    let client_info = Arc::clone(session.client_info());
    let detached_sockets = Arc::clone(&layer.detached_sockets);
    let socket = layer
        .registry
        .insert(|index| Socket::new(state, id, namespace, client_info, detached_sockets, index));
    let connect_packet = encode_connect_packet(&socket);
    let close_reason = {
        let mut session_state = session.state().lock();
        if session_state.close_reason.is_none() {
            session.send_frame(&connect_packet);
            let mut socket_state = socket.lock_state();
            socket_state.session = Some(Arc::clone(session));
            socket_state.status = SocketStatus::Connecting;
            session_state.sockets.push(Arc::clone(&socket));
        }
        session_state.close_reason
    };
    let future = layer.handler.on_connected(&socket);
    match close_reason {
        None => {
            layer.finish_connect(&socket, session);
            future
        }
        Some(reason) => {
            layer.end_socket(&socket, reason);
            None
        }
    }
}
