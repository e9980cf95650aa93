//! Sockets that watch the presence of users.
//!
//! Invariants:
//! 1. A socket that watches users has one task for it, which ends with the socket. A socket that never watched has
//!    none.

use std::sync::{Arc, Weak};

use parlor_chat::api::error::{Error, Result as ChatResult};
use parlor_chat::ids::UserId;
use parlor_chat::presence::{
    MAX_WATCHED_USERS, PresenceWatcher, UserStatus, UserStatusList, WatchPresence,
};
use parlor_socketio::HandlerFuture;
use tokio::sync::{mpsc, oneshot};

use super::dispatch::{AuthorizedEvent, EventCall};
use super::server_events::PresenceEvent;
use super::{GatewaySocket, SocketIoGateway};
use crate::api_error::ApiError;

/// Capacity of the request queue. A socket sends one request at a time.
const REQUEST_QUEUE_CAPACITY: usize = 4;

/// Handle of the task that watches users for a socket; the task ends on drop.
#[derive(Clone)]
pub(super) struct PresenceTask(mpsc::Sender<WatchRequest>);

/// Request to the task, with the channel for its reply.
enum WatchRequest {
    Watch(Vec<UserId>, StatusReplySender),
    Unwatch(Vec<UserId>, StatusReplySender),
}

/// Channel for the current statuses of the users.
type StatusReplySender = oneshot::Sender<ChatResult<Vec<UserStatus>>>;

/// `presence:watch`.
pub(super) fn watch(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |event| request_change(event, WatchRequest::Watch))
}

/// `presence:unwatch`.
pub(super) fn unwatch(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |event| request_change(event, WatchRequest::Unwatch))
}

async fn request_change(
    event: AuthorizedEvent<WatchPresence>,
    request: fn(Vec<UserId>, StatusReplySender) -> WatchRequest,
) -> Result<UserStatusList, ApiError> {
    let users = parse_user_ids(&event.body.user_ids)?;
    let task = PresenceTask::of_socket(&event.gateway, &event.socket);
    let (reply_sender, reply) = oneshot::channel();
    let disconnected = || ApiError::from(Error::SessionExpired);
    let sent = task.0.send(request(users, reply_sender)).await;
    sent.map_err(|_| disconnected())?;
    let users = reply.await.map_err(|_| disconnected())??;
    Ok(UserStatusList { users })
}

fn parse_user_ids(ids: &[String]) -> ChatResult<Vec<UserId>> {
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
        let mut mutable = socket.state().mutable.lock();
        let spawn = || {
            let (sender, requests) = mpsc::channel(REQUEST_QUEUE_CAPACITY);
            let watcher = gateway.chat().presence().new_watcher();
            let (gateway, socket) = (Arc::clone(gateway), Arc::downgrade(socket));
            tokio::spawn(run_presence_task(gateway, socket, watcher, requests));
            Self(sender)
        };
        match mutable.is_disconnected {
            // The socket is disconnected: no task may start, and a channel without a receiver fails the request.
            true => Self(mpsc::channel(1).0),
            false => mutable.presence_task.get_or_insert_with(spawn).clone(),
        }
    }
}

async fn run_presence_task(
    gateway: Arc<SocketIoGateway>,
    socket: Weak<GatewaySocket>,
    mut watcher: PresenceWatcher,
    mut requests: mpsc::Receiver<WatchRequest>,
) {
    loop {
        let users = tokio::select! {
            request = requests.recv() => match request {
                Some(request) => {
                    handle_request(&gateway, &mut watcher, request).await;
                    continue;
                }
                None => return,
            },
            users = watcher.next() => users,
        };
        let Some(socket) = socket.upgrade() else {
            return;
        };
        socket.send(&gateway.encode::<PresenceEvent>(&UserStatusList { users }));
    }
}

async fn handle_request(
    gateway: &SocketIoGateway,
    watcher: &mut PresenceWatcher,
    request: WatchRequest,
) {
    // A receiver that is gone means that the socket is disconnected.
    let _ = match request {
        WatchRequest::Watch(users, reply) => reply.send(watcher.watch(&users).await),
        WatchRequest::Unwatch(users, reply) => {
            watcher.unwatch(&users);
            reply.send(gateway.chat().presence().statuses(&users).await)
        }
    };
}
