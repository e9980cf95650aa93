//! What the store did not take, and is given when it answers again.
//!
//! Always true: there are at most so many. What finds no place, and what a node that ends still owes, is found by
//! catching up.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::Messages;
use super::rows;
use crate::error::{Error, Result};
use crate::ids::ConversationId;

/// Most that is owed at one time.
const MOST: usize = 10_000;

/// Something the store has to be given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Owed {
    /// The last messages of a conversation.
    Messages(ConversationId),
    /// A message that was edited or deleted.
    Change(ConversationId, u64),
}

/// All that is owed.
#[derive(Default)]
pub(super) struct Debts(Mutex<HashSet<Owed>>);

impl Debts {
    /// Remembers something.
    pub(super) fn note(&self, owed: Owed) {
        let mut all = self.0.lock();
        if all.len() < MOST {
            all.insert(owed);
        }
    }

    fn all(&self) -> Vec<Owed> {
        self.0.lock().iter().cloned().collect()
    }

    /// Whether it was still owed.
    fn take(&self, owed: &Owed) -> bool {
        self.0.lock().remove(owed)
    }
}

impl Messages {
    /// Gives the store what it did not take. To be called every second. Ends when the store or the database is away; what
    /// fails for a reason of its own keeps nothing else waiting.
    pub async fn settle(&self) -> Result<()> {
        let mut failed = Ok(());
        for owed in self.owed.all() {
            // Taken before it is done: what comes to be owed meanwhile is owed again.
            if !self.owed.take(&owed) {
                continue;
            }
            if let Err(error) = self.give(&owed).await {
                self.owed.note(owed);
                let away = error.is_away() || matches!(error, Error::DatabaseUnavailable(_));
                failed = Err(error);
                if away {
                    break;
                }
            }
        }
        failed
    }

    async fn give(&self, owed: &Owed) -> Result<()> {
        match owed {
            Owed::Messages(conversation) => self.catch_up(conversation).await,
            Owed::Change(conversation, seq) => {
                let before = seq.saturating_sub(1);
                let after = seq.saturating_add(1);
                let read = rows::between(&self.database, conversation, before, after).await?;
                match read.and_then(|mut read| read.rows.pop()) {
                    Some(row) => self.show(conversation, row).await,
                    None => Ok(()),
                }
            }
        }
    }
}
