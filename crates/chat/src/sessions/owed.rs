//! Sessions in the store that may not be what the rows say, because a step failed or was given up between them.
//!
//! Always true: whoever changes the rows owes the step from before the change until it is done. Beyond what can be kept only
//! the one who asked knows that it failed.

use super::session::SessionEndReason;
use super::{SessionStatus, Sessions};
use crate::error::Result;

impl Sessions {
    /// Does what failed or was given up before. To be called once a second.
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
                                .await
                        }
                        None => {
                            self.publish_session_end(&user, SessionEndReason::Logout, None)
                                .await
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
