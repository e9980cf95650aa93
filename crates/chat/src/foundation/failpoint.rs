//! Failpoints: named points at which a test stops the tasks of a node, as the end of its process would.
//!
//! Invariants:
//! 1. A release build has no failpoints: [`failpoint!`] compiles to nothing.
//! 2. After a task has reached its failpoint, every other task of the node stops at the next failpoint that it reaches.

use std::sync::Arc;

use tokio::sync::watch;

/// A point at which the tasks of a node stop. Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct Failpoint {
    name: &'static str,
    reached: Arc<watch::Sender<bool>>,
}

impl Failpoint {
    /// A failpoint with this name, which no task has reached.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            reached: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Waits until a task has reached the failpoint.
    pub async fn wait_until_reached(&self) {
        let mut reached = self.reached.subscribe();
        // The sender lives as long as `self`.
        let _ = reached.wait_for(|reached| *reached).await;
    }

    /// Never returns if the name is that of this failpoint, or if a task has reached it.
    #[cfg_attr(
        not(debug_assertions),
        expect(dead_code, reason = "a release build has no failpoints")
    )]
    pub(crate) async fn pass(&self, name: &str) {
        if name == self.name {
            self.reached.send_replace(true);
        }
        if *self.reached.borrow() {
            std::future::pending::<()>().await;
        }
    }
}

/// Stops the task if a test has selected this point: `failpoint!(self.ctx, "outbox.committed")`.
macro_rules! failpoint {
    ($ctx:expr, $name:literal) => {
        #[cfg(debug_assertions)]
        if let Some(failpoint) = $ctx.failpoint() {
            failpoint.pass($name).await;
        }
    };
}
pub(crate) use failpoint;
