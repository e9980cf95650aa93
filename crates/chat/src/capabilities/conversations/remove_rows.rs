//! Removes the messages of deleted conversations from the database.
//!
//! ```text
//!  delete (one transaction)                        row removal (one transaction per page)
//!  conversation and members: removed  ──────────▶  mentions and messages: removed
//!  record of the deletion: rows are left           record, if no row is left: rows are removed
//! ```
//!
//! Invariants:
//! 1. A page is one short transaction, and there is a pause after it, so other writers are never blocked for long.
//! 2. A page locks the record of the deletion, so one node at a time removes the rows of a conversation.
//! 3. The record is completed only if no row is left. The removal therefore continues after a crash or a restart, on any
//!    node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Conversations;
use crate::api::error::Result;
use crate::background::{BackgroundTask, BackgroundTasks};
use crate::database::{
    PerBackend, WriteTransaction, for_backend, read_statement, to_db_integer, tx_statement,
};

/// Interval of the search for deleted conversations with rows.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of messages that one transaction removes.
const MAX_MESSAGES_PER_PAGE: i64 = 500;
/// Pause after a page.
const PAGE_PAUSE: Duration = Duration::from_millis(10);

const SELECT_NEXT_DELETION: &str = "
    SELECT id FROM deleted_conversations
    WHERE rows_removed_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM conversations c WHERE c.id = deleted_conversations.id)
    ORDER BY deleted_at, id LIMIT 1";
/// Locks the record, unless another node has locked it.
const LOCK_DELETION: &str = "
    SELECT id FROM deleted_conversations WHERE id = $1 AND rows_removed_at IS NULL FOR UPDATE SKIP LOCKED";
const SELECT_LAST_SEQ_OF_PAGE: &str = "
    SELECT MAX(seq) FROM (SELECT seq FROM messages WHERE conversation_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) AS page";
const DELETE_MENTIONS: &str =
    "DELETE FROM mentions WHERE conversation_id = $1 AND seq > $2 AND seq <= $3";
const DELETE_MESSAGES: &str =
    "DELETE FROM messages WHERE conversation_id = $1 AND seq > $2 AND seq <= $3";
const COMPLETE_DELETION: &str =
    "UPDATE deleted_conversations SET rows_removed_at = $2 WHERE id = $1";

/// Result of the removal of one page.
enum RemovedPage {
    /// The page ended with the message of this `seq`.
    Through(i64),
    /// No row is left.
    Complete,
    /// Another node is removing the rows of this conversation, or has removed them.
    OtherNode,
}

impl Conversations {
    /// Starts the background task; it stops when the returned value is dropped.
    pub(crate) fn start_row_removal(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![BackgroundTask::spawn_periodic(
            self,
            SEARCH_INTERVAL,
            "remove the messages of a deleted conversation",
            |conversations| async move { conversations.remove_deleted_rows().await },
        )])
    }

    /// Removes the rows of all deleted conversations, the earliest deletion first. The background task calls this.
    pub async fn remove_deleted_rows(&self) -> Result<()> {
        loop {
            let next: Option<String> = read_statement!(
                self.database,
                query_scalar(SELECT_NEXT_DELETION).fetch_optional
            );
            let Some(id) = next else {
                return Ok(());
            };
            let mut removed_through = 0;
            loop {
                match self.remove_page(&id, removed_through).await? {
                    RemovedPage::Through(seq) => removed_through = seq,
                    RemovedPage::Complete => break,
                    RemovedPage::OtherNode => return Ok(()),
                }
                sleep(PAGE_PAUSE).await;
            }
        }
    }

    /// Removes the messages after `removed_through`, up to [`MAX_MESSAGES_PER_PAGE`].
    async fn remove_page(&self, id: &str, removed_through: i64) -> Result<RemovedPage> {
        let mut tx = self.database.begin().await?;
        if !lock_deletion(&mut tx, id).await? {
            return Ok(RemovedPage::OtherNode);
        }
        let last: Option<i64> = tx_statement!(
            tx,
            query_scalar(
                SELECT_LAST_SEQ_OF_PAGE,
                id,
                removed_through,
                MAX_MESSAGES_PER_PAGE
            )
            .fetch_one
        );
        let page = match last {
            Some(last) => {
                for statement in [DELETE_MENTIONS, DELETE_MESSAGES] {
                    for_backend!(tx.connection(), c => {
                        let query = sqlx::query(statement).bind(id).bind(removed_through);
                        query.bind(last).execute(c).await?;
                    });
                }
                RemovedPage::Through(last)
            }
            None => {
                let now = to_db_integer(self.ctx.now().as_millis());
                for_backend!(tx.connection(), c => {
                    sqlx::query(COMPLETE_DELETION).bind(id).bind(now).execute(c).await?;
                });
                RemovedPage::Complete
            }
        };
        tx.commit().await?;
        Ok(page)
    }
}

/// Locks the record of a deletion; false if another node has locked or completed it. A transaction on SQLite is the only
/// writer, so it needs no lock.
async fn lock_deletion(tx: &mut WriteTransaction, id: &str) -> Result<bool> {
    match tx.connection() {
        PerBackend::Sqlite(_) => Ok(true),
        PerBackend::Postgres(connection) => {
            let locked: Option<String> = sqlx::query_scalar(LOCK_DELETION)
                .bind(id)
                .fetch_optional(connection)
                .await?;
            Ok(locked.is_some())
        }
    }
}
