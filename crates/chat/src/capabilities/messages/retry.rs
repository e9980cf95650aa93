//! Retry of store updates that failed.
//!
//! Invariants:
//! 1. Recovery (`recover.rs`) finds the updates that did not fit into the queue, and those that were pending when a
//!    node ended.

use super::Messages;
use super::rows;
use crate::api::error::{Error, Result};
use crate::ids::ConversationId;

/// A store update that has to be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PendingStoreUpdate {
    /// Committed messages of this conversation may not be applied.
    UnappliedMessages(ConversationId),
    /// An edit or a delete of this message may not be published.
    UnpublishedChange(ConversationId, u64),
}

impl Messages {
    /// Repeats all pending store updates. The background task calls this every second. It stops if the store or the
    /// database is unavailable; an update that fails for another reason does not delay the others.
    pub async fn retry_pending(&self) -> Result<()> {
        let mut last_error = Ok(());
        for update in self.retry_queue.all() {
            // The update is removed before it runs, so that an update that is added meanwhile stays in the queue.
            if !self.retry_queue.remove(&update) {
                continue;
            }
            if let Err(error) = self.retry_update(&update).await {
                self.retry_queue.push(update);
                let is_unavailable =
                    error.is_store_unavailable() || matches!(error, Error::DatabaseUnavailable(_));
                last_error = Err(error);
                if is_unavailable {
                    break;
                }
            }
        }
        last_error
    }

    async fn retry_update(&self, update: &PendingStoreUpdate) -> Result<()> {
        match update {
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
