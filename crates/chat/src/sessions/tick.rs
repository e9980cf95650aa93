//! The background work of sessions.

use std::sync::Arc;
use std::time::Duration;

use super::Sessions;
use crate::ticking::{BackgroundTask, BackgroundTasks};

/// How often those who are attached are asked for, because other services tell nobody.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);
/// How often owed steps are paid.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Sessions {
    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn(Arc::clone(self).listen_for_session_ends()),
            BackgroundTask::spawn_periodic(
                self,
                RETRY_INTERVAL,
                "retry session updates",
                |it| async move { it.retry_pending().await },
            ),
            BackgroundTask::spawn_periodic(
                self,
                RECHECK_INTERVAL,
                "re-check the sessions of connected users",
                |it| async move { it.recheck_all().await },
            ),
        ])
    }
}
