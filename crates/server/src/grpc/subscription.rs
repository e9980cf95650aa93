//! `SubscribeStatusUpdates`: one stream of changes.
//!
//! Always true:
//! 1. A stream makes its next message when the client has room for it, so at most one is waiting; what happens meanwhile
//!    is kept as the latest state of each user.
//! 2. It ends with the server, with the time of the token, with the session, or with the client, and then nothing of it
//!    is left.

use futures_util::{Stream, stream};
use parlor_chat::access::Caller;
use parlor_chat::code::Code;
use parlor_chat::error::Error;
use parlor_chat::presence::{self, Watcher, Watching};
use parlor_chat::sessions::{Attached, Reason};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::proto::v1::{StatusUpdates, UserStatus};
use crate::app::App;
use crate::wire::Refusal;

/// The messages of a stream, from the snapshot on.
pub(super) fn updates(
    app: App,
    caller: &Caller,
    session: Option<Attached>,
    watching: Watching,
) -> impl Stream<Item = Result<StatusUpdates, Status>> + Send + use<> {
    let subscription = Subscription {
        ends: Instant::now() + app.time_left(caller),
        app,
        session,
        snapshot: Some(watching.users),
        changes: watching.changes,
    };
    stream::try_unfold(subscription, |mut it| async move {
        let next = it.next().await?;
        Ok(Some((next, it)))
    })
}

struct Subscription {
    app: App,
    /// None of a service.
    session: Option<Attached>,
    snapshot: Option<Vec<presence::UserStatus>>,
    changes: Watcher,
    /// When the token's time is over.
    ends: Instant,
}

impl Subscription {
    async fn next(&mut self) -> Result<StatusUpdates, Refusal> {
        if let Some(users) = self.snapshot.take() {
            return Ok(message(users, true));
        }
        tokio::select! {
            // Changes come last, so that those who change for ever keep no stream open.
            biased;
            () = self.app.stopping() => Err(super::ending()),
            () = sleep_until(self.ends) => {
                let detail = "the time of the token is over; subscribe again with a new one";
                Err(Refusal::new(Code::TokenExpired, detail))
            }
            refusal = over(self.session.as_mut()) => Err(refusal),
            users = self.changes.next() => Ok(message(users, false)),
        }
    }
}

/// Waits for the end of a session, and says what is told then.
async fn over(session: Option<&mut Attached>) -> Refusal {
    let Some(session) = session else {
        return std::future::pending().await;
    };
    match session.ended().await {
        Reason::Blocked => Error::SessionBlocked.into(),
        Reason::Logout | Reason::Replaced => Error::SessionExpired.into(),
    }
}

fn message(users: Vec<presence::UserStatus>, snapshot: bool) -> StatusUpdates {
    StatusUpdates {
        users: users.into_iter().map(UserStatus::from).collect(),
        snapshot,
    }
}
