//! What the store did not take, and is given when it answers again.
//!
//! Always true: what finds no place, and what a node that ends still owes, is found by catching up.

use super::Messages;
use super::rows;
use crate::error::{Error, Result};
use crate::ids::ConversationId;

/// Something the store has to be given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PendingStoreUpdate {
    /// The last messages of a conversation.
    UnappliedMessages(ConversationId),
    /// A message that was edited or deleted.
    UnpublishedChange(ConversationId, u64),
}

impl Messages {
    /// Gives the store what it did not take. To be called every second. Ends when the store or the database is away; what
    /// fails for a reason of its own keeps nothing else waiting.
    pub async fn settle(&self) -> Result<()> {
        let mut failed = Ok(());
        for owed in self.retry_queue.all() {
            // Taken before it is done: what comes to be owed meanwhile is owed again.
            if !self.retry_queue.remove(&owed) {
                continue;
            }
            if let Err(error) = self.retry_update(&owed).await {
                self.retry_queue.push(owed);
                let away =
                    error.is_store_unavailable() || matches!(error, Error::DatabaseUnavailable(_));
                failed = Err(error);
                if away {
                    break;
                }
            }
        }
        failed
    }

    async fn retry_update(&self, owed: &PendingStoreUpdate) -> Result<()> {
        match owed {
            PendingStoreUpdate::UnappliedMessages(conversation) => {
                self.apply_unapplied(conversation).await
            }
            PendingStoreUpdate::UnpublishedChange(conversation, seq) => {
                let before = seq.saturating_sub(1);
                let after = seq.saturating_add(1);
                let read = rows::find_between(&self.database, conversation, before, after).await?;
                match read.and_then(|mut read| read.rows.pop()) {
                    Some(row) => self.publish_change(conversation, row).await,
                    None => Ok(()),
                }
            }
        }
    }
}
