//! Retries updates of the session hash that failed or were cancelled after the rows had changed.
//!
//! Invariant: a retry guard exists from before a change of the rows until the hash is written. If the queue is full,
//! the update is lost, and only the caller of the operation learns of the failure.

use super::Sessions;
use super::end_events::end_reason;
use super::reconcile::RowChange;
use crate::api::error::Result;

impl Sessions {
    /// Retries the pending updates. A background task calls this function every second.
    pub async fn retry_pending(&self) -> Result<()> {
        let mut failed = Ok(());
        let users = self.retry_queue.take_up_to(usize::MAX).into_iter();
        // One guard per user: after an early return, the remaining users are queued again.
        let guarded = users.map(|user| (user.clone(), self.retry_queue.guard([user])));
        for (user, guard) in guarded.collect::<Vec<_>>() {
            match self.sync_from_rows(&user, RowChange::Other).await {
                Ok(session) => {
                    if let Some(reason) = end_reason(session.as_ref()) {
                        self.publish_session_end(&user, reason, None).await;
                    }
                    guard.complete();
                }
                Err(error) if error.is_store_unavailable() => return Err(error),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }
}
