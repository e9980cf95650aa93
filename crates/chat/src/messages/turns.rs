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
pub(super) struct Turns(Mutex<Given>);

#[derive(Default)]
struct Given {
    /// The last turn of each conversation, and its end.
    last: HashMap<ConversationId, (u64, oneshot::Receiver<()>)>,
    next: u64,
}

/// A place in the order.
pub(super) struct Turn {
    turns: Arc<Turns>,
    conversation: ConversationId,
    number: u64,
    before: Option<oneshot::Receiver<()>>,
    _over: oneshot::Sender<()>,
}

impl Turns {
    /// The next turn in a conversation.
    pub(super) fn take(self: &Arc<Self>, conversation: &ConversationId) -> Turn {
        let (over, ended) = oneshot::channel();
        let mut given = self.0.lock();
        given.next += 1;
        let number = given.next;
        let before = given.last.insert(conversation.clone(), (number, ended));
        Turn {
            turns: Arc::clone(self),
            conversation: conversation.clone(),
            number,
            before: before.map(|(_, ended)| ended),
            _over: over,
        }
    }
}

impl Turn {
    /// Waits for it.
    pub(super) async fn comes(&mut self) {
        if let Some(before) = &mut self.before {
            // It ends by being dropped.
            let _ = before.await;
            self.before = None;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut given = self.turns.0.lock();
        let last = given.last.get(&self.conversation);
        if last.is_some_and(|(number, _)| *number == self.number) {
            given.last.remove(&self.conversation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_come_in_their_order_and_nothing_is_left_of_them() {
        let turns = Arc::new(Turns::default());
        let id = ConversationId::new("c").expect("an id");
        let [mut first, mut second, mut third] = [(); 3].map(|()| turns.take(&id));
        first.comes().await;
        let late = tokio::spawn(async move {
            third.comes().await;
        });
        tokio::task::yield_now().await;
        assert!(!late.is_finished());
        drop(first);
        second.comes().await;
        assert!(!late.is_finished());
        drop(second);
        late.await.expect("it came");
        assert!(turns.0.lock().last.is_empty());
    }
}
