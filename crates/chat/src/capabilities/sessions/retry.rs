//! Retries updates of the session hash that failed or were cancelled after the rows had changed.
//!
//! Invariant: a retry guard exists from before a change of the rows until the hash is written. If the queue is full,
//! the update is lost, and only the caller of the operation learns of the failure.

use super::model::SessionEndReason;
use super::{SessionStatus, Sessions};
use crate::api::error::Result;

impl Sessions {
    /// Retries the pending updates. The background task calls this every second.
    pub async fn retry_pending(&self) -> Result<()> {
        let mut failed = Ok(());
        for user in self.owed.all() {
            self.owed.remove(&user);
            let debt = self.owed.guard([user.clone()]);
            match self.sync_from_rows(&user).await {
                Ok(session) => {
                    match session.map(|it| it.status) {
                        Some(SessionStatus::Blocked) => {
                            self.publish_session_end(&user, SessionEndReason::Blocked, None)
                                .await;
                        }
                        None => {
                            self.publish_session_end(&user, SessionEndReason::Logout, None)
                                .await;
                        }
                        Some(_) => {}
                    }
                    debt.complete();
                }
                Err(error) if error.is_store_unavailable() => return Err(error),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }
}
