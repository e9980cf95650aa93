//! Owners of imported conversations.
//!
//! Invariant: every group or support conversation with members has an owner, as if the last owner had left.

use super::super::error::TransferError;
use crate::database::{Database, for_backend, tx_statement};

/// Conversations per transaction.
const CONVERSATIONS_PER_TRANSACTION: i64 = 500;

const SELECT_WITHOUT_OWNER: &str = "
    SELECT c.id FROM conversations c
    WHERE c.id > $1 AND c.kind <> 'direct'
        AND EXISTS (SELECT 1 FROM members m WHERE m.conversation_id = c.id)
        AND NOT EXISTS (SELECT 1 FROM members m WHERE m.conversation_id = c.id AND m.role = 'owner')
    ORDER BY c.id LIMIT $2";
/// The longest-standing admin becomes owner, otherwise the longest-standing member.
const CHOOSE_OWNER: &str = "
    UPDATE members SET role = 'owner' WHERE conversation_id = $1 AND user_id = (
        SELECT user_id FROM members WHERE conversation_id = $1
        ORDER BY CASE role WHEN 'admin' THEN 0 ELSE 1 END, joined_at, joined_version, user_id LIMIT 1)";

/// Makes a member owner of each conversation that has none.
pub(in crate::transfer) async fn choose_owners(database: &Database) -> Result<(), TransferError> {
    let mut after = String::new();
    loop {
        let mut tx = database.begin().await?;
        let page: Vec<String> = tx_statement!(
            tx,
            query_scalar(SELECT_WITHOUT_OWNER, &after, CONVERSATIONS_PER_TRANSACTION).fetch_all
        );
        for id in &page {
            for_backend!(tx.connection(), c => sqlx::query(CHOOSE_OWNER).bind(id).execute(c).await.map(drop))?;
        }
        tx.commit().await?;
        match page.last() {
            Some(last) => after.clone_from(last),
            None => return Ok(()),
        }
    }
}
