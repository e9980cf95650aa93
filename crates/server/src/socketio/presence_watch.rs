//! Sockets that watch the presence of users.
//!
//! Invariants:
//! 1. A socket that watches users has one task for it, which ends with the socket. A socket that never watched has
//!    none.

use std::sync::{Arc, Weak};

use parlor_chat::api::error::{Error, Result as Done};
use parlor_chat::ids::UserId;
use parlor_chat::presence::{MAX_WATCHED_USERS, PresenceWatcher, UserStatus};
use parlor_socketio::HandlerFuture;
use tokio::sync::{mpsc, oneshot};

use super::bodies::{Seen, Watched};
use super::dispatch::{AuthorizedEvent, EventCall};
use super::{GatewaySocket, SocketIoGateway, encode_json};
use crate::api_error::ApiError;

/// Capacity of the request queue. A socket sends one request at a time.
const WAITING: usize = 4;

/// Handle of the task that watches users for a socket; the task ends on drop.
#[derive(Clone)]
pub(super) struct PresenceTask(mpsc::Sender<Change>);

/// Request to the task, with the channel for its reply.
enum Change {
    Watch(Vec<UserId>, Told),
    Unwatch(Vec<UserId>, Told),
}

/// Channel for the current statuses of the users.
type Told = oneshot::Sender<Done<Vec<UserStatus>>>;

/// `presence:watch`.
pub(super) fn watch(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |asked: AuthorizedEvent<Watched>| {
        request_change(asked, Change::Watch)
    })
}

/// `presence:unwatch`.
pub(super) fn unwatch(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |asked: AuthorizedEvent<Watched>| {
        request_change(asked, Change::Unwatch)
    })
}

async fn request_change(
    asked: AuthorizedEvent<Watched>,
    change: fn(Vec<UserId>, Told) -> Change,
) -> Result<Seen, ApiError> {
    let users = parse_user_ids(&asked.body.user_ids)?;
    let watching = PresenceTask::of_socket(&asked.gateway, &asked.socket);
    let (told, seen) = oneshot::channel();
    let gone = || ApiError::from(Error::SessionExpired);
    let sent = watching.0.send(change(users, told)).await;
    sent.map_err(|_| gone())?;
    let users = seen.await.map_err(|_| gone())??;
    Ok(Seen { users })
}

fn parse_user_ids(ids: &[String]) -> Done<Vec<UserId>> {
    if ids.len() > MAX_WATCHED_USERS {
        return Err(Error::TooMany {
            items: "watched users",
            given: ids.len(),
            max: MAX_WATCHED_USERS,
        });
    }
    let checked = ids.iter().map(UserId::new);
    Ok(checked.collect::<Result<_, _>>()?)
}

impl PresenceTask {
    /// Handle of the socket's task; spawns the task on first use.
    fn of_socket(gateway: &Arc<SocketIoGateway>, socket: &Arc<GatewaySocket>) -> Self {
        let mut inner = socket.state().mutable.lock();
        let begin = || {
            let (asks, changes) = mpsc::channel(WAITING);
            let watcher = gateway.chat().presence().new_watcher();
            let (gateway, socket) = (Arc::clone(gateway), Arc::downgrade(socket));
            tokio::spawn(run_presence_task(gateway, socket, watcher, changes));
            Self(asks)
        };
        match inner.is_disconnected {
            // The socket is disconnected: no task may start, and a channel without a receiver fails the request.
            true => Self(mpsc::channel(1).0),
            false => inner.presence_task.get_or_insert_with(begin).clone(),
        }
    }
}

async fn run_presence_task(
    gateway: Arc<SocketIoGateway>,
    socket: Weak<GatewaySocket>,
    mut watcher: PresenceWatcher,
    mut changes: mpsc::Receiver<Change>,
) {
    loop {
        let users = tokio::select! {
            change = changes.recv() => match change {
                Some(change) => {
                    handle_request(&gateway, &mut watcher, change).await;
                    continue;
                }
                None => return,
            },
            users = watcher.next() => users,
        };
        let Some(socket) = socket.upgrade() else {
            return;
        };
        socket.send(&gateway.encode_recoverable_event("presence", &encode_json(&Seen { users })));
    }
}

async fn handle_request(gateway: &SocketIoGateway, watcher: &mut PresenceWatcher, change: Change) {
    // A receiver that is gone means that the socket is disconnected.
    let _ = match change {
        Change::Watch(users, told) => told.send(watcher.watch(&users).await),
        Change::Unwatch(users, told) => {
            watcher.unwatch(&users);
            told.send(gateway.chat().presence().statuses(&users).await)
        }
    };
}
