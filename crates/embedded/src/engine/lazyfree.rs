//! Frees large values on a background thread (Redis: lazyfree), so that commands do not wait for it.

use std::sync::LazyLock;
use std::sync::mpsc::{self, SyncSender};

use crate::values::StoredValue;

/// Frees a value. A large value is freed in the background.
pub fn free_value(value: StoredValue) {
    const LAZYFREE_THRESHOLD: usize = 100;
    if value.item_count() > LAZYFREE_THRESHOLD {
        free_in_background(value);
    }
}

/// Values that may wait for the thread. If the queue is full, the caller frees the value itself, so memory use stays
/// bounded.
const MAX_QUEUED_FREES: usize = 1_024;

/// Frees something on the lazyfree thread, because the caller holds the engine's mutex. One thread serves the process.
pub fn free_in_background(freed: impl Send + 'static) {
    static FREE_QUEUE: LazyLock<SyncSender<Box<dyn Send>>> = LazyLock::new(|| {
        let (sender, freed) = mpsc::sync_channel(MAX_QUEUED_FREES);
        let thread = std::thread::Builder::new().name("parlor-free".into());
        // If the thread cannot start, the receiver is dropped and callers free the values themselves.
        let _ = thread.spawn(move || freed.into_iter().for_each(drop::<Box<dyn Send>>));
        sender
    });
    let _ = FREE_QUEUE.try_send(Box::new(freed));
}
