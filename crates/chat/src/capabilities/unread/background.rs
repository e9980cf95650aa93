//! Background tasks of unread counts.
//!
//! Invariants:
//! 1. Every node runs every task. Repeating a task, or running it on several nodes, has no effect.

use std::sync::Arc;
use std::time::Duration;

use super::Unread;
use super::rows;
use super::update::CounterUpdate;
use crate::api::error::Result;
use crate::background::{BackgroundTask, BackgroundTasks};

/// Interval at which throttled notifications are checked.
const NOTIFY_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which expired mutes are processed.
const MUTE_EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of mutes per statement.
const MUTE_PAGE_SIZE: u32 = 500;

impl Unread {
    /// Starts the background tasks; they stop when the returned value is dropped.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn_periodic(
                self,
                NOTIFY_CHECK_INTERVAL,
                "notify large conversations",
                |it| async move { it.publish_due_notifications().await },
            ),
            BackgroundTask::spawn_periodic(
                self,
                MUTE_EXPIRY_INTERVAL,
                "process expired mutes",
                |it| async move { it.expire_mutes().await.map(drop) },
            ),
        ])
    }

    /// Adds conversations whose mute expired to the totals of their users; returns how many. Every node calls this once
    /// a minute; repeating it has no effect.
    pub async fn expire_mutes(&self) -> Result<usize> {
        let mut processed = 0;
        loop {
            let now = self.ctx.now().as_millis();
            let expired = rows::find_expired_mutes(&self.database, now, MUTE_PAGE_SIZE).await?;
            // The keys are updated first: after the row is cleared, the mute would not be found again.
            for positions in expired.chunk_by(|a, b| a.conversation_id == b.conversation_id) {
                let updates = positions
                    .iter()
                    .map(|it| (&it.user_id, CounterUpdate::from(it)));
                let updates: Vec<_> = updates.collect();
                self.apply_updates(&positions[0].conversation_id, &updates, true)
                    .await?;
            }
            rows::clear_mutes(&self.database, &expired).await?;
            processed += expired.len();
            if expired.len() < MUTE_PAGE_SIZE as usize {
                return Ok(processed);
            }
        }
    }
}
