//! Freeing what is large without making everybody wait.

use std::sync::LazyLock;
use std::sync::mpsc::{self, SyncSender};

use crate::value::Value;

/// Frees a value without making everybody wait for a large one.
pub fn free_value(value: Value) {
    const LAZYFREE_THRESHOLD: usize = 100;
    if value.item_count() > LAZYFREE_THRESHOLD {
        free_in_background(value);
    }
}

/// So much may wait to be freed; what comes on top is freed where it is, so that memory cannot run ahead of the thread.
const MAX_QUEUED_FREES: usize = 1_024;

/// Frees on another thread, since the lock is held here. One thread does it for the whole process.
pub fn free_in_background(freed: impl Send + 'static) {
    static FREE_QUEUE: LazyLock<SyncSender<Box<dyn Send>>> = LazyLock::new(|| {
        let (sender, freed) = mpsc::sync_channel(MAX_QUEUED_FREES);
        let thread = std::thread::Builder::new().name("parlor-free".into());
        // Without the thread the receiver is gone, and what is sent is freed where it is.
        let _ = thread.spawn(move || freed.into_iter().for_each(drop::<Box<dyn Send>>));
        sender
    });
    let _ = FREE_QUEUE.try_send(Box::new(freed));
}
