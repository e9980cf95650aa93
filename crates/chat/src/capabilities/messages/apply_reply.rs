//! Replies to the senders of committed messages.
//!
//! Invariant: a sender waits for the store at most [`APPLY_WAIT_TIMEOUT`] after the commit. Applying continues after that.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::writer::{PendingReply, WrittenMessage};
use crate::api::error::Result;
use crate::background::log_failure;

/// How long a reply waits for the store after the commit.
pub(super) const APPLY_WAIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Senders that wait for a reply, and their replies.
pub(super) type PendingReplies = Vec<(PendingReply, WrittenMessage)>;

/// Waits for the store or the timeout, then replies to all senders. Calls `if_not_applied` before the replies, if the
/// store has not applied the messages by then. Their in-flight permits are released when the
/// returned value is dropped.
pub(super) async fn reply_when_applied<T>(
    replies: PendingReplies,
    applying: impl Future<Output = Result<T>>,
    if_not_applied: impl FnOnce(),
) -> (Result<T>, Vec<Option<OwnedSemaphorePermit>>) {
    let mut applying = pin!(applying);
    let in_time = timeout(APPLY_WAIT_TIMEOUT, applying.as_mut()).await;
    if !matches!(in_time, Ok(Ok(_))) {
        if_not_applied();
    }
    let replies = replies.into_iter();
    let permits = replies.map(|(reply, written)| reply.send(Ok(written)));
    let permits = permits.collect();
    let applied = match in_time {
        Ok(applied) => applied,
        Err(_) => applying.await,
    };
    log_failure("apply messages", &applied);
    (applied, permits)
}
