//! Rebuilds the unread counters of all users from the rows, after the rows were changed without the capabilities.
//!
//! Invariant: no server is running, so no update is on its way.

use super::Unread;
use super::rows;
use crate::api::error::Result;

impl Unread {
    /// Writes the counters, total and positions of every user. `on_progress` is called with the number of users that
    /// are done, and the number of all.
    pub(crate) async fn rebuild(&self, on_progress: impl Fn(u64, u64) + Send + Sync) -> Result<()> {
        let total = rows::count_users(&self.database).await?;
        let (mut done, mut last) = (0, String::new());
        on_progress(done, total);
        loop {
            let users = rows::users(&self.database, &last).await?;
            let Some(end) = users.last() else {
                return Ok(());
            };
            last = end.to_string();
            self.reconcile_users(&users, None).await?;
            done += users.len() as u64;
            on_progress(done, total.max(done));
        }
    }
}
