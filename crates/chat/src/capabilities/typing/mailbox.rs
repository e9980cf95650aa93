//! What waits for one listener.
//!
//! Always true:
//! 1. There is one entry for a user and conversation, the latest; so a listener that never reads has as many as there are
//!    typers.
//! 2. A listener learns that somebody stopped if and only if it learned that they typed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::model::TypingChange;
use crate::ids::{ConversationId, UserId};

#[derive(Default)]
pub(super) struct ListenerMailbox {
    inner: Mutex<MailboxState>,
    filled: Notify,
}

#[derive(Default)]
struct MailboxState {
    waiting: HashMap<(ConversationId, UserId), PendingChange>,
    /// The keys of `waiting`, in the order in which they will be read.
    order: BTreeMap<u64, (ConversationId, UserId)>,
    next_position: u64,
}

struct PendingChange {
    change: Arc<TypingChange>,
    /// Whether the listener believes that the user types.
    reported_typing: bool,
    position: u64,
}

impl ListenerMailbox {
    /// Puts a change in. `told` says whether the listener was told before that the user types, if nothing waits for it.
    pub(super) fn post(&self, change: &Arc<TypingChange>, told: bool) {
        let key = (change.conversation_id.clone(), change.user_id.clone());
        let mut inner = self.inner.lock();
        if let Some(waiting) = inner.waiting.get_mut(&key) {
            waiting.change = Arc::clone(change);
            if !waiting.reported_typing && !change.typing {
                inner.remove(&key);
            }
            return;
        }
        inner.next_position += 1;
        let place = inner.next_position;
        inner.order.insert(place, key.clone());
        let waiting = PendingChange {
            change: Arc::clone(change),
            reported_typing: told,
            position: place,
        };
        inner.waiting.insert(key, waiting);
        drop(inner);
        self.filled.notify_one();
    }

    /// The next change; none if nothing waits.
    pub(super) fn pop(&self) -> Option<TypingChange> {
        let mut inner = self.inner.lock();
        let (_, key) = inner.order.pop_first()?;
        let waiting = inner.waiting.remove(&key)?;
        Some(Arc::unwrap_or_clone(waiting.change))
    }

    /// Waits until something may have been put in.
    pub(super) async fn wait_for_change(&self) {
        self.filled.notified().await;
    }

    /// Forgets what waits of a conversation.
    pub(super) fn forget(&self, conversation: &ConversationId) {
        let mut inner = self.inner.lock();
        let MailboxState { waiting, order, .. } = &mut *inner;
        waiting.retain(|key, it| {
            let keep = key.0 != *conversation;
            if !keep {
                order.remove(&it.position);
            }
            keep
        });
    }
}

impl MailboxState {
    fn remove(&mut self, key: &(ConversationId, UserId)) {
        if let Some(waiting) = self.waiting.remove(key) {
            self.order.remove(&waiting.position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(user: &str, typing: bool) -> Arc<TypingChange> {
        Arc::new(TypingChange {
            conversation_id: ConversationId::new("c1").expect("valid"),
            user_id: UserId::new(user).expect("valid"),
            username: None,
            typing,
        })
    }

    fn read(mailbox: &ListenerMailbox) -> Vec<(String, bool)> {
        let changes = std::iter::from_fn(|| mailbox.pop());
        let changes = changes.map(|it| (it.user_id.to_string(), it.typing));
        changes.collect()
    }

    #[test]
    fn the_mailbox_keeps_one_change_per_user_in_first_arrival_order() {
        let mailbox = ListenerMailbox::default();
        mailbox.post(&change("b", true), false);
        mailbox.post(&change("a", true), false);
        mailbox.post(&change("b", true), true);
        mailbox.post(&change("c", false), true);
        let expected = [("b", true), ("a", true), ("c", false)];
        assert_eq!(read(&mailbox), expected.map(|(id, it)| (id.to_owned(), it)));
        assert_eq!(read(&mailbox), []);
    }

    #[test]
    fn a_stop_is_delivered_only_if_the_start_was_delivered() {
        let mailbox = ListenerMailbox::default();
        for _ in 0..1_000 {
            mailbox.post(&change("new", true), false);
            mailbox.post(&change("new", false), true);
            mailbox.post(&change("old", false), true);
            mailbox.post(&change("old", true), false);
        }
        mailbox.post(&change("old", false), true);
        assert_eq!(mailbox.inner.lock().order.len(), 1);
        assert_eq!(read(&mailbox), [("old".to_owned(), false)]);
    }

    #[test]
    fn a_forgotten_conversation_leaves_the_others() {
        let mailbox = ListenerMailbox::default();
        mailbox.post(&change("a", true), false);
        let mut elsewhere = TypingChange::clone(&change("b", true));
        elsewhere.conversation_id = ConversationId::new("c2").expect("valid");
        mailbox.post(&Arc::new(elsewhere.clone()), false);
        mailbox.forget(&change("a", true).conversation_id);
        assert_eq!(mailbox.pop(), Some(elsewhere));
        assert_eq!(mailbox.pop(), None);
    }
}
