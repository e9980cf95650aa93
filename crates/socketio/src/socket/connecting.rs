//! A client asks for a namespace.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::time::timeout;

use super::hub::Hub;
use super::one::{Id, Lane, Socket, Status};
use super::{App, Connect, Refused, Work, frame};
use crate::Reason;
use crate::engine::{Parcel, Session};
use crate::packet::write;

/// Lets a client in, gives it back its socket, or refuses it.
pub(super) async fn enter<A: App>(
    hub: Arc<Hub<A>>,
    session: Arc<Session<Hub<A>>>,
    namespace: String,
    auth: Option<Box<RawValue>>,
) {
    let patience = session.engine().options().connect_timeout;
    let asking = Connect {
        id: String::new(),
        namespace: namespace.clone(),
        auth,
        client: Arc::clone(session.client()),
    };
    match timeout(patience, decide(&hub, &session, asking)).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some((id, state)))) => {
            if let Some(work) = admit(&hub, &session, &namespace, id, state) {
                work.await;
            }
        }
        Ok(Err(refused)) => {
            let payload = refused.payload.get().as_bytes();
            session.push(&frame::packet(namespace.len() + payload.len(), |out| {
                write::connect_error(out, &namespace, payload);
            }));
            // It may ask again, but not take its time.
            session.engine().watch(&session);
        }
        // Whoever is told to go comes back by itself, other than whoever is refused.
        Err(_) => session.close(Reason::PingTimeout),
    }
}

/// Asks the application. `None`: the client has its former socket again.
async fn decide<A: App>(
    hub: &Arc<Hub<A>>,
    session: &Arc<Session<Hub<A>>>,
    mut asking: Connect,
) -> Result<Option<(Id, A::State)>, Refused> {
    if let Some(claim) = hub.claim(&asking.namespace, asking.auth.as_deref()) {
        asking.id = claim.socket.id().to_owned();
        // Boxed, as most have nothing to come back to.
        if !Box::pin(hub.app.recover(&claim.socket, asking.clone())).await? {
            claim.give_up();
        } else if claim.attach(session) {
            return Ok(None);
        }
    }
    let id = Id::random();
    asking.id = id.as_str().to_owned();
    let state = hub.app.connect(asking).await?;
    Ok(Some((id, state)))
}

/// The packet by which a client learns that it is in.
pub(super) fn hello<S>(socket: &Socket<S>) -> Arc<Parcel> {
    let pid = socket.pid();
    frame::packet(socket.namespace().len() + 64, |out| {
        write::connect(out, socket.namespace(), socket.id(), pid.as_deref());
    })
}

/// Makes the socket. The client hears of it before anything else by it.
fn admit<A: App>(
    hub: &Arc<Hub<A>>,
    session: &Arc<Session<Hub<A>>>,
    namespace: &str,
    id: Id,
    state: A::State,
) -> Option<Work> {
    let client = Arc::clone(session.client());
    let shelf = Arc::clone(&hub.shelf);
    let socket = hub
        .roster
        .insert(|number| Socket::new(state, id, namespace, client, shelf, number));
    let hello = hello(&socket);
    let over = {
        let mut links = session.state().lock();
        if links.over.is_none() {
            session.push(&hello);
            let mut link = socket.link();
            let lane: Arc<dyn Lane<A::State>> = Arc::clone(session) as _;
            link.lane = Some(lane);
            link.status = Status::Entering;
            links.sockets.push(Arc::clone(&socket));
        }
        links.over
    };
    let work = hub.app.connected(&socket);
    match over {
        None => {
            hub.entered(&socket, session);
            work
        }
        Some(reason) => {
            hub.end(&socket, reason);
            None
        }
    }
}
