//! Sockets that watch how others are seen.
//!
//! Always true: a socket that watches somebody has one task for it, which ends with the socket; one that never did has none.

use std::sync::{Arc, Weak};

use parlor_chat::error::{Error, Result as Done};
use parlor_chat::ids::UserId;
use parlor_chat::presence::{MOST_WATCHED, UserStatus, Watcher};
use parlor_socketio::Work;
use tokio::sync::{mpsc, oneshot};

use super::call::{Asked, Call};
use super::words::{Seen, Watched};
use super::{Gateway, Socket, encode};
use crate::wire::Refusal;

/// Requests that wait for the task: a socket makes one at a time.
const WAITING: usize = 4;

/// The way to the task that watches for a socket. Dropped, the task ends.
#[derive(Clone)]
pub(super) struct Watching(mpsc::Sender<Change>);

/// Whom to watch, or no longer, and who wants to know how they are seen.
enum Change {
    Watch(Vec<UserId>, Told),
    Unwatch(Vec<UserId>, Told),
}

/// Who wants to know.
type Told = oneshot::Sender<Done<Vec<UserStatus>>>;

/// `presence:watch`.
pub(super) fn watch(call: &Call<'_>) -> Option<Work> {
    call.work(true, |asked: Asked<Watched>| change(asked, Change::Watch))
}

/// `presence:unwatch`.
pub(super) fn unwatch(call: &Call<'_>) -> Option<Work> {
    call.work(true, |asked: Asked<Watched>| change(asked, Change::Unwatch))
}

async fn change(
    asked: Asked<Watched>,
    change: fn(Vec<UserId>, Told) -> Change,
) -> Result<Seen, Refusal> {
    let users = users(&asked.body.user_ids)?;
    let watching = Watching::of(&asked.gateway, &asked.socket);
    let (told, seen) = oneshot::channel();
    let gone = || Refusal::from(Error::SessionExpired);
    let sent = watching.0.send(change(users, told)).await;
    sent.map_err(|_| gone())?;
    let users = seen.await.map_err(|_| gone())??;
    Ok(Seen { users })
}

fn users(ids: &[String]) -> Done<Vec<UserId>> {
    if ids.len() > MOST_WATCHED {
        return Err(Error::TooMany {
            what: "watched users",
            given: ids.len(),
            most: MOST_WATCHED,
        });
    }
    let checked = ids.iter().map(UserId::new);
    Ok(checked.collect::<Result<_, _>>()?)
}

impl Watching {
    /// What watches for a socket; begins if nothing does yet.
    fn of(gateway: &Arc<Gateway>, socket: &Arc<Socket>) -> Self {
        let mut inner = socket.state().inner.lock();
        let begin = || {
            let (asks, changes) = mpsc::channel(WAITING);
            let watcher = gateway.chat().presence().watcher();
            let (gateway, socket) = (Arc::clone(gateway), Arc::downgrade(socket));
            tokio::spawn(run(gateway, socket, watcher, changes));
            Self(asks)
        };
        match inner.over {
            // Nobody waits for the answer, and nothing may begin.
            true => Self(mpsc::channel(1).0),
            false => inner.watching.get_or_insert_with(begin).clone(),
        }
    }
}

async fn run(
    gateway: Arc<Gateway>,
    socket: Weak<Socket>,
    mut watcher: Watcher,
    mut changes: mpsc::Receiver<Change>,
) {
    loop {
        let users = tokio::select! {
            change = changes.recv() => match change {
                Some(change) => {
                    changed(&gateway, &mut watcher, change).await;
                    continue;
                }
                None => return,
            },
            users = watcher.next() => users,
        };
        let Some(socket) = socket.upgrade() else {
            return;
        };
        socket.send(&gateway.frame("presence", &encode(&Seen { users })));
    }
}

async fn changed(gateway: &Gateway, watcher: &mut Watcher, change: Change) {
    // One who does not wait for the answer has gone.
    let _ = match change {
        Change::Watch(users, told) => told.send(watcher.watch(&users).await),
        Change::Unwatch(users, told) => {
            watcher.unwatch(&users);
            told.send(gateway.chat().presence().statuses(&users).await)
        }
    };
}
