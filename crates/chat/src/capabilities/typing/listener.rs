//! Listening to conversations.

use std::collections::HashMap;
use std::sync::Arc;

use super::hub::{ListenerRegistration, TypingRegistry};
use super::mailbox::ListenerMailbox;
use super::model::{TypingChange, TypingUser};
use crate::api::error::{Error, Result};
use crate::ids::ConversationId;

/// Conversations of one listener.
pub const MAX_CONVERSATIONS_PER_LISTENER: usize = 1_000;

/// One who is told who types in chosen conversations. Dropping it ends the listening.
///
/// Of each user in each conversation the latest state waits to be read, so a slow reader misses changes in between and
/// never the last one.
pub struct TypingListener {
    hub: Arc<TypingRegistry>,
    mailbox: Arc<ListenerMailbox>,
    registrations: HashMap<ConversationId, ListenerRegistration>,
}

impl TypingListener {
    pub(super) fn new(hub: Arc<TypingRegistry>) -> Self {
        Self {
            hub,
            mailbox: Arc::default(),
            registrations: HashMap::new(),
        }
    }

    /// Listens to one more conversation; who types there now, by user id. Changes follow from [`next`](Self::next). If the
    /// store cannot tell, or the call is given up, the conversation is not listened to. Listening again is harmless.
    pub async fn subscribe(&mut self, conversation: &ConversationId) -> Result<Vec<TypingUser>> {
        if let Some(seat) = self.registrations.get(conversation) {
            return seat.start_listening().await;
        }
        let given = self.registrations.len() + 1;
        if given > MAX_CONVERSATIONS_PER_LISTENER {
            return Err(Error::TooMany {
                items: "conversations",
                given,
                max: MAX_CONVERSATIONS_PER_LISTENER,
            });
        }
        let seat = ListenerRegistration::take(&self.hub, &self.mailbox, conversation);
        let typers = seat.start_listening().await?;
        self.registrations.insert(conversation.clone(), seat);
        Ok(typers)
    }

    /// Listens to a conversation no longer. What still waited of it is not told.
    pub fn unsubscribe(&mut self, conversation: &ConversationId) {
        self.registrations.remove(conversation);
    }

    /// The next change. Safe to cancel.
    pub async fn next(&mut self) -> TypingChange {
        loop {
            if let Some(change) = self.try_next() {
                return change;
            }
            self.mailbox.wait_for_change().await;
        }
    }

    /// The next change, if one is there already.
    pub fn try_next(&mut self) -> Option<TypingChange> {
        self.mailbox.pop()
    }
}

impl std::fmt::Debug for TypingListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TypingListener({})", self.registrations.len())
    }
}
