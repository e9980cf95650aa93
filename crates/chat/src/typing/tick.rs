//! The background work of typing.

use std::sync::Arc;
use std::time::Duration;

use super::Typing;
use crate::ticking::{Task, Ticking};

/// How often listeners are told whose typing has ended.
const TICK: Duration = Duration::from_millis(100);
/// How often the throttle is cleaned.
const CLEAN: Duration = Duration::from_secs(300);

impl Typing {
    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        Ticking::new(vec![
            Task::each(self, TICK, "tell who stopped typing", |it| async move {
                it.hub.end_due();
                Ok(())
            }),
            // Apart: ends are told on time also while the store does not answer.
            Task::each(self, TICK, "read who types", |it| async move {
                it.hub.read_missed().await
            }),
            Task::each(self, CLEAN, "clean the throttle", |it| async move {
                it.clean();
                Ok(())
            }),
        ])
    }
}
