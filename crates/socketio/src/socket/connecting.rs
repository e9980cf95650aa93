//! CONNECT packets.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::timeout;

use super::hub::SocketIoLayer;
use super::one::{Lane, Socket, SocketSid, Status};
use super::{ConnectError, ConnectRequest, HandlerFuture, SocketHandler, frame};
use crate::DisconnectReason;
use crate::engine::{EncodedFrame, EngineIoSession};
use crate::packet::write;

/// Handles a CONNECT: recovers a socket, creates one, or rejects the client.
pub(super) async fn handle_connect<A: SocketHandler>(
    hub: Arc<SocketIoLayer<A>>,
    session: Arc<EngineIoSession<SocketIoLayer<A>>>,
    namespace: String,
    auth: Option<Box<RawValue>>,
) {
    let patience = session.engine().options().connect_timeout;
    let asking = ConnectRequest {
        id: String::new(),
        namespace: namespace.clone(),
        auth,
        client: Arc::clone(session.client_info()),
    };
    match timeout(patience, recover_or_authorize(&hub, &session, asking)).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some((id, state)))) => {
            if let Some(work) = create_socket(&hub, &session, &namespace, id, state) {
                work.await;
            }
        }
        Ok(Err(refused)) => {
            let payload = refused.payload.get().as_bytes();
            session.send_frame(&frame::encode_packet(
                namespace.len() + payload.len(),
                |out| {
                    write::encode_connect_error(out, &namespace, payload);
                },
            ));
            // The client may send another CONNECT, within the connect timeout.
            session.engine().start_connect_deadline(&session);
        }
        // The connection is closed instead of sending CONNECT_ERROR: Socket.IO clients reconnect by themselves after a
        // lost connection, but not after a CONNECT_ERROR.
        Err(_) => session.close(DisconnectReason::PingTimeout),
    }
}

/// Recovers the former socket of the client (`None`), or asks the handler for the state of a new one.
async fn recover_or_authorize<A: SocketHandler>(
    hub: &Arc<SocketIoLayer<A>>,
    session: &Arc<EngineIoSession<SocketIoLayer<A>>>,
    mut asking: ConnectRequest,
) -> Result<Option<(SocketSid, A::State)>, ConnectError> {
    if let Some(claim) = hub.claim_for_recovery(&asking.namespace, asking.auth.as_deref()) {
        asking.id = claim.socket.id().to_owned();
        // Boxed to keep this future small: most clients recover nothing.
        if !Box::pin(hub.app.on_recover(&claim.socket, asking.clone())).await? {
            claim.discard();
        } else if claim.resume_on(session) {
            return Ok(None);
        }
    }
    let id = SocketSid::random();
    asking.id = id.as_str().to_owned();
    let state = hub.app.on_connect(asking).await?;
    Ok(Some((id, state)))
}

/// Encodes the CONNECT packet of the server.
pub(super) fn encode_connect_packet<S>(socket: &Socket<S>) -> Arc<EncodedFrame> {
    let pid = socket.pid();
    frame::encode_packet(socket.namespace().len() + 64, |out| {
        write::encode_connect(out, socket.namespace(), socket.id(), pid.as_deref());
    })
}

/// Creates the socket. Its CONNECT reply is queued before any other packet of the socket.
fn create_socket<A: SocketHandler>(
    hub: &Arc<SocketIoLayer<A>>,
    session: &Arc<EngineIoSession<SocketIoLayer<A>>>,
    namespace: &str,
    id: SocketSid,
    state: A::State,
) -> Option<HandlerFuture> {
    let client = Arc::clone(session.client_info());
    let shelf = Arc::clone(&hub.detached_sockets);
    let socket = hub
        .registry
        .insert(|number| Socket::new(state, id, namespace, client, shelf, number));
    let hello = encode_connect_packet(&socket);
    let over = {
        let mut links = session.state().lock();
        if links.close_reason.is_none() {
            session.send_frame(&hello);
            let mut link = socket.lock_state();
            let lane: Arc<dyn Lane<A::State>> = Arc::clone(session) as _;
            link.session = Some(lane);
            link.status = Status::Entering;
            links.sockets.push(Arc::clone(&socket));
        }
        links.close_reason
    };
    let work = hub.app.on_connected(&socket);
    match over {
        None => {
            hub.finish_connect(&socket, session);
            work
        }
        Some(reason) => {
            hub.end_socket(&socket, reason);
            None
        }
    }
}
