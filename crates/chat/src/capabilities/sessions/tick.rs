//! Background tasks of sessions.

use std::sync::Arc;
use std::time::Duration;

use super::Sessions;
use crate::background::{BackgroundTask, BackgroundTasks};

/// Interval of the re-check of connected users. It finds sessions that other services have ended, because these publish
/// nothing.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);
/// Interval of the retries.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl Sessions {
    /// Starts the background tasks.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
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
