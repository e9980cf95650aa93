//! Freeing what is large without making everybody wait.

use std::sync::LazyLock;
use std::sync::mpsc::{self, SyncSender};

use crate::value::Value;

/// Frees a value without making everybody wait for a large one.
pub fn value(value: Value) {
    const MANY: usize = 100;
    if value.items() > MANY {
        aside(value);
    }
}

/// So much may wait to be freed; what comes on top is freed where it is, so that memory cannot run ahead of the thread.
const WAITING: usize = 1_024;

/// Frees on another thread, since the lock is held here. One thread does it for the whole process.
pub fn aside(freed: impl Send + 'static) {
    static FREEING: LazyLock<SyncSender<Box<dyn Send>>> = LazyLock::new(|| {
        let (sender, freed) = mpsc::sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("parlor-free".into());
        // Without the thread the receiver is gone, and what is sent is freed where it is.
        let _ = thread.spawn(move || freed.into_iter().for_each(drop::<Box<dyn Send>>));
        sender
    });
    let _ = FREEING.try_send(Box::new(freed));
}
