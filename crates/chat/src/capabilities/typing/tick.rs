//! Background tasks of typing.

use std::sync::Arc;
use std::time::Duration;

use super::Typing;
use crate::background::{BackgroundTask, BackgroundTasks};

/// How often listeners are told whose typing has ended.
const TICK: Duration = Duration::from_millis(100);
/// Interval of the throttle cleanup.
const THROTTLE_CLEANUP_INTERVAL: Duration = Duration::from_secs(300);

impl Typing {
    /// Starts the background tasks.
    pub fn tick(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn_periodic(
                self,
                TICK,
                "tell who stopped typing",
                |it| async move {
                    it.hub.expire_due();
                    Ok(())
                },
            ),
            // Apart: ends are told on time also while the store does not answer.
            BackgroundTask::spawn_periodic(self, TICK, "read who types", |it| async move {
                it.hub.read_missed().await
            }),
            BackgroundTask::spawn_periodic(
                self,
                THROTTLE_CLEANUP_INTERVAL,
                "clean the typing throttle",
                |it| async move {
                    it.clean_throttle();
                    Ok(())
                },
            ),
        ])
    }
}
