//! Order in which this node applies the commits of a conversation.
//!
//! Invariants:
//! 1. Turns are granted in commit order, which is `seq` order. A turn is granted when the previous [`ApplyTurn`] is
//!    dropped. A cancelled sender therefore never blocks the senders behind it.
//! 2. The queue only saves work. Without it, the append script would find a gap, and rows would be read to fill it.
//! 3. The map contains a conversation only while an [`ApplyTurn`] of it exists.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::ids::ConversationId;

/// Queues of all conversations of a node.
#[derive(Default)]
pub(super) struct ApplyQueue(Mutex<ApplyQueueState>);

#[derive(Default)]
struct ApplyQueueState {
    /// Number of the newest turn of each conversation, and a channel that closes when this turn is dropped.
    newest_turn: HashMap<ConversationId, (u64, oneshot::Receiver<()>)>,
    next_number: u64,
}

/// Position of one commit in the queue. Dropping it lets the next commit proceed.
pub(super) struct ApplyTurn {
    queue: Arc<ApplyQueue>,
    conversation: ConversationId,
    number: u64,
    previous_done: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

impl ApplyQueue {
    /// Appends a turn to the queue of a conversation.
    pub(super) fn enqueue(self: &Arc<Self>, conversation: &ConversationId) -> ApplyTurn {
        let (done, done_signal) = oneshot::channel();
        let mut state = self.0.lock();
        state.next_number += 1;
        let number = state.next_number;
        let previous = state
            .newest_turn
            .insert(conversation.clone(), (number, done_signal));
        ApplyTurn {
            queue: Arc::clone(self),
            conversation: conversation.clone(),
            number,
            previous_done: previous.map(|(_, done)| done),
            _done: done,
        }
    }
}

impl ApplyTurn {
    /// Waits until the previous turn is dropped.
    pub(super) async fn wait(&mut self) {
        if let Some(previous) = &mut self.previous_done {
            // The channel carries no value: it closes when the previous turn is dropped.
            let _ = previous.await;
            self.previous_done = None;
        }
    }
}

impl Drop for ApplyTurn {
    fn drop(&mut self) {
        let mut state = self.queue.0.lock();
        let newest = state.newest_turn.get(&self.conversation);
        if newest.is_some_and(|(number, _)| *number == self.number) {
            state.newest_turn.remove(&self.conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn apply_turns_are_granted_in_order_and_removed() {
        let turns = Arc::new(ApplyQueue::default());
        let id = ConversationId::new("c").expect("a valid id");
        let [mut first, mut second, mut third] = [(); 3].map(|()| turns.enqueue(&id));
        first.wait().await;
        let late = tokio::spawn(async move {
            third.wait().await;
        });
        tokio::task::yield_now().await;
        assert!(!late.is_finished());
        drop(first);
        second.wait().await;
        assert!(!late.is_finished());
        drop(second);
        late.await.expect("the third turn is granted");
        assert!(turns.0.lock().newest_turn.is_empty());
    }
}
