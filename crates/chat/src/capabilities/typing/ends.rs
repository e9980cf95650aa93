//! When to look who stopped without saying so.
//!
//! Always true: for each typer that a room knows there is an entry, and one only. An entry of a room that was closed goes
//! when its time has come.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::model::TypingUser;
use crate::context::Timestamp;
use crate::ids::{ConversationId, UserId};

/// The ends of all spells of typing that a node knows, in their order.
#[derive(Default)]
pub(super) struct TypingEndIndex(Mutex<BTreeSet<(Timestamp, ConversationId, UserId)>>);

impl TypingEndIndex {
    pub(super) fn add(&self, conversation: &ConversationId, typer: &TypingUser) {
        self.0.lock().insert(index_entry(conversation, typer));
    }

    pub(super) fn remove(&self, conversation: &ConversationId, typer: &TypingUser) {
        self.0.lock().remove(&index_entry(conversation, typer));
    }

    /// The places whose end has come, each once.
    pub(super) fn take_due(&self, now: Timestamp) -> Vec<(ConversationId, UserId)> {
        let mut ends = self.0.lock();
        let mut due = Vec::new();
        while let Some(first) = ends.pop_first() {
            if first.0 > now {
                ends.insert(first);
                break;
            }
            due.push((first.1, first.2));
        }
        due
    }
}

fn index_entry(
    conversation: &ConversationId,
    typer: &TypingUser,
) -> (Timestamp, ConversationId, UserId) {
    (typer.until, conversation.clone(), typer.user_id.clone())
}
