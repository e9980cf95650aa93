//! The order in which this node applies the messages of a conversation.
//!
//! Always true:
//! 1. Turns are given in the order of commits, which is that of `seq`. A turn comes when the one before it is over, and that
//!    is when it is dropped: nobody waits for somebody who has given up.
//! 2. It saves work and decides nothing: without it the store would find a gap, and rows would be read to fill it.
//! 3. A conversation is in the map only while somebody has a turn in it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::ids::ConversationId;

/// The turns of a node.
#[derive(Default)]
pub(super) struct ApplyQueue(Mutex<ApplyQueueState>);

#[derive(Default)]
struct ApplyQueueState {
    /// The last turn of each conversation, and its end.
    newest_turn: HashMap<ConversationId, (u64, oneshot::Receiver<()>)>,
    next_number: u64,
}

/// A place in the order.
pub(super) struct ApplyTurn {
    queue: Arc<ApplyQueue>,
    conversation: ConversationId,
    number: u64,
    previous_done: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

impl ApplyQueue {
    /// The next turn in a conversation.
    pub(super) fn enqueue(self: &Arc<Self>, conversation: &ConversationId) -> ApplyTurn {
        let (over, ended) = oneshot::channel();
        let mut given = self.0.lock();
        given.next_number += 1;
        let number = given.next_number;
        let before = given
            .newest_turn
            .insert(conversation.clone(), (number, ended));
        ApplyTurn {
            queue: Arc::clone(self),
            conversation: conversation.clone(),
            number,
            previous_done: before.map(|(_, ended)| ended),
            _done: over,
        }
    }
}

impl ApplyTurn {
    /// Waits for it.
    pub(super) async fn wait(&mut self) {
        if let Some(before) = &mut self.previous_done {
            // It ends by being dropped.
            let _ = before.await;
            self.previous_done = None;
        }
    }
}

impl Drop for ApplyTurn {
    fn drop(&mut self) {
        let mut given = self.queue.0.lock();
        let last = given.newest_turn.get(&self.conversation);
        if last.is_some_and(|(number, _)| *number == self.number) {
            given.newest_turn.remove(&self.conversation);
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
