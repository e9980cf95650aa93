//! When to look who stopped without saying so.
//!
//! Always true: for each typer that a room knows there is an entry, and one only. An entry of a room that was closed goes
//! when its time has come.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use super::ops::Typer;
use crate::context::Moment;
use crate::ids::{ConversationId, UserId};

/// The ends of all spells of typing that a node knows, in their order.
#[derive(Default)]
pub(super) struct Ends(Mutex<BTreeSet<(Moment, ConversationId, UserId)>>);

impl Ends {
    pub(super) fn add(&self, conversation: &ConversationId, typer: &Typer) {
        self.0.lock().insert(entry(conversation, typer));
    }

    pub(super) fn remove(&self, conversation: &ConversationId, typer: &Typer) {
        self.0.lock().remove(&entry(conversation, typer));
    }

    /// The places whose end has come, each once.
    pub(super) fn take_due(&self, now: Moment) -> Vec<(ConversationId, UserId)> {
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

fn entry(conversation: &ConversationId, typer: &Typer) -> (Moment, ConversationId, UserId) {
    (typer.until, conversation.clone(), typer.user_id.clone())
}
