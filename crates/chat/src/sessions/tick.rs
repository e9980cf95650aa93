//! The background work of sessions.

use std::sync::Arc;
use std::time::Duration;

use super::Sessions;
use crate::ticking::{Task, Ticking};

/// How often those who are attached are asked for, because other services tell nobody.
const ASK: Duration = Duration::from_secs(20);
/// How often owed steps are paid.
const PAY: Duration = Duration::from_secs(1);

impl Sessions {
    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        Ticking::new(vec![
            Task::spawn(Arc::clone(self).hear()),
            Task::each(self, PAY, "write owed sessions", |it| async move {
                it.pay().await
            }),
            Task::each(self, ASK, "ask for sessions", |it| async move {
                it.recheck().await
            }),
        ])
    }
}
