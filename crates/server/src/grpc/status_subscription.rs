//! `SubscribeStatusUpdates`: the stream of status changes.
//!
//! Invariants:
//! 1. A stream builds its next message only when the client can receive it, so at most one message waits. Of the
//!    changes in between only the latest status of each user is kept.
//! 2. A stream ends at the shutdown, when the token expires, when the session ends, or when the client cancels it. It
//!    then holds no resources.

use futures_util::{Stream, stream};
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::Error;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::presence::{self, PresenceWatch, PresenceWatcher};
use parlor_chat::sessions::{SessionEndReason, SessionEndWaiter};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::proto::v1::{StatusUpdates, UserStatus};
use crate::api_error::ApiError;
use crate::app_state::AppState;

/// Messages of a stream, beginning with the snapshot.
pub(super) fn status_updates(
    app: AppState,
    caller: &Caller,
    session: Option<SessionEndWaiter>,
    watch: PresenceWatch,
) -> impl Stream<Item = Result<StatusUpdates, Status>> + Send + use<> {
    let subscription = StatusSubscription {
        token_expires_at: Instant::now() + app.token_time_left(caller),
        app,
        session,
        snapshot: Some(watch.users),
        changes: watch.changes,
    };
    stream::try_unfold(subscription, |mut it| async move {
        let next = it.next().await?;
        Ok(Some((next, it)))
    })
}

struct StatusSubscription {
    app: AppState,
    /// `None` for a service.
    session: Option<SessionEndWaiter>,
    snapshot: Option<Vec<presence::UserStatus>>,
    changes: PresenceWatcher,
    /// Expiry of the token.
    token_expires_at: Instant,
}

impl StatusSubscription {
    async fn next(&mut self) -> Result<StatusUpdates, ApiError> {
        if let Some(users) = self.snapshot.take() {
            return Ok(status_updates_message(users, true));
        }
        tokio::select! {
            // Changes are polled last, so that constant changes cannot keep a stream open.
            biased;
            () = self.app.wait_for_shutdown() => Err(super::shutdown_error()),
            () = sleep_until(self.token_expires_at) => {
                let detail = "the token has expired; subscribe again with a new token";
                Err(ApiError::new(ErrorCode::TokenExpired, detail))
            }
            error = wait_for_session_end(self.session.as_mut()) => Err(error),
            users = self.changes.next() => Ok(status_updates_message(users, false)),
        }
    }
}

/// Waits for the end of a session and returns the error for the stream.
async fn wait_for_session_end(session: Option<&mut SessionEndWaiter>) -> ApiError {
    let Some(session) = session else {
        return std::future::pending().await;
    };
    match session.wait().await {
        SessionEndReason::Blocked => Error::SessionBlocked.into(),
        SessionEndReason::Logout | SessionEndReason::Replaced => Error::SessionExpired.into(),
    }
}

fn status_updates_message(users: Vec<presence::UserStatus>, snapshot: bool) -> StatusUpdates {
    StatusUpdates {
        users: users.into_iter().map(UserStatus::from).collect(),
        snapshot,
    }
}
