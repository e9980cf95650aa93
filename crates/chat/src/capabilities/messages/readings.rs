//! Single-flight: concurrent callers share one read of the database.
//!
//! Invariants:
//! 1. Of the concurrent callers for a conversation, one reads and the others wait for its result. A caller that needs
//!    something newer than this result reads again.
//! 2. The map contains a conversation only while a call for it runs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::ids::ConversationId;

/// Result of the last read, for the waiting callers.
type Place<T> = Arc<tokio::sync::Mutex<Option<Arc<T>>>>;

/// Reads in progress.
pub(super) struct Readings<T> {
    places: Mutex<HashMap<ConversationId, Place<T>>>,
}

/// One caller for a conversation. Dropping the last one removes the entry of the conversation.
struct Seat<'a, T> {
    readings: &'a Readings<T>,
    conversation: &'a ConversationId,
    place: Option<Place<T>>,
}

impl<T> Readings<T> {
    pub(super) fn new() -> Self {
        Self {
            places: Mutex::default(),
        }
    }

    /// Returns the result of a concurrent caller if it is `good`, otherwise the result of `read`.
    pub(super) async fn ask<E>(
        &self,
        conversation: &ConversationId,
        good: impl Fn(&T) -> bool,
        read: impl AsyncFnOnce() -> Result<Option<T>, E>,
    ) -> Result<Option<Arc<T>>, E> {
        let place = Arc::clone(self.places.lock().entry(conversation.clone()).or_default());
        let seat = Seat {
            readings: self,
            conversation,
            place: Some(place),
        };
        let mut found = seat
            .place
            .as_ref()
            .expect("the place is taken only on drop")
            .lock()
            .await;
        if let Some(found) = found.as_ref().filter(|it| good(it)) {
            return Ok(Some(Arc::clone(found)));
        }
        let read = read().await?.map(Arc::new);
        found.clone_from(&read);
        Ok(read)
    }
}

impl<T> Drop for Seat<'_, T> {
    fn drop(&mut self) {
        let mut places = self.readings.places.lock();
        drop(self.place.take());
        let last = places
            .get(self.conversation)
            .is_some_and(|place| Arc::strong_count(place) == 1);
        if last {
            places.remove(self.conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn concurrent_reads_share_one_load_unless_a_newer_revision_is_required() {
        let readings = Readings::new();
        let id = ConversationId::new("c").expect("a valid id");
        let read = |found: u8| {
            async move || {
                tokio::task::yield_now().await;
                Ok::<_, ()>(Some(found))
            }
        };
        let (first, content, newer) = tokio::join!(
            readings.ask(&id, |_| true, read(1)),
            readings.ask(&id, |_| true, read(2)),
            readings.ask(&id, |found| *found >= 3, read(3)),
        );
        let found = [first, content, newer].map(|it| it.expect("no error").map(|it| *it));
        assert_eq!(found, [Some(1), Some(1), Some(3)]);
        assert!(readings.places.lock().is_empty());
    }
}
