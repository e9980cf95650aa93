//! Listening to conversations.

use std::collections::HashMap;
use std::sync::Arc;

use super::hub::{Hub, Seat};
use super::mailbox::Mailbox;
use super::ops::{Typer, TypingChange};
use crate::error::{Error, Result};
use crate::ids::ConversationId;

/// Conversations of one listener.
pub const MOST_LISTENED: usize = 1_000;

/// One who is told who types in chosen conversations. Dropping it ends the listening.
///
/// Of each user in each conversation the latest state waits to be read, so a slow reader misses changes in between and
/// never the last one.
pub struct TypingListener {
    hub: Arc<Hub>,
    mailbox: Arc<Mailbox>,
    seats: HashMap<ConversationId, Seat>,
}

impl TypingListener {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        Self {
            hub,
            mailbox: Arc::default(),
            seats: HashMap::new(),
        }
    }

    /// Listens to one more conversation; who types there now, by user id. Changes follow from [`next`](Self::next). If the
    /// store cannot tell, or the call is given up, the conversation is not listened to. Listening again is harmless.
    pub async fn listen(&mut self, conversation: &ConversationId) -> Result<Vec<Typer>> {
        if let Some(seat) = self.seats.get(conversation) {
            return seat.sit().await;
        }
        let given = self.seats.len() + 1;
        if given > MOST_LISTENED {
            return Err(Error::TooMany {
                what: "conversations",
                given,
                most: MOST_LISTENED,
            });
        }
        let seat = Seat::take(&self.hub, &self.mailbox, conversation);
        let typers = seat.sit().await?;
        self.seats.insert(conversation.clone(), seat);
        Ok(typers)
    }

    /// Listens to a conversation no longer. What still waited of it is not told.
    pub fn unlisten(&mut self, conversation: &ConversationId) {
        self.seats.remove(conversation);
    }

    /// The next change. Safe to cancel.
    pub async fn next(&mut self) -> TypingChange {
        loop {
            if let Some(change) = self.try_next() {
                return change;
            }
            self.mailbox.filled().await;
        }
    }

    /// The next change, if one is there already.
    pub fn try_next(&mut self) -> Option<TypingChange> {
        self.mailbox.pop()
    }
}

impl std::fmt::Debug for TypingListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TypingListener({})", self.seats.len())
    }
}
