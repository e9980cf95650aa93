//! What the store did not take, and is given when it answers again.
//!
//! Always true: there are at most so many. What finds no place, and what a node that ends still owes, is found by
//! catching up.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::Messages;
use super::rows;
use crate::error::Result;
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

    fn take(&self) -> Option<Owed> {
        let mut all = self.0.lock();
        let one = all.iter().next().cloned()?;
        all.remove(&one);
        Some(one)
    }
}

impl Messages {
    /// Gives the store what it did not take. To be called every second. Ends with the first that it does not take now.
    pub async fn settle(&self) -> Result<()> {
        // Taken before it is done: what comes to be owed meanwhile is owed again.
        while let Some(owed) = self.owed.take() {
            if let Err(error) = self.give(&owed).await {
                self.owed.note(owed);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn give(&self, owed: &Owed) -> Result<()> {
        match owed {
            Owed::Messages(conversation) => self.catch_up(conversation).await,
            Owed::Change(conversation, seq) => {
                let read = rows::between(&self.database, conversation, seq - 1, seq + 1).await?;
                match read.and_then(|mut read| read.rows.pop()) {
                    Some(row) => self.show(conversation, row).await,
                    None => Ok(()),
                }
            }
        }
    }
}
