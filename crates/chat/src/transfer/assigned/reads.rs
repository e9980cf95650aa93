//! Read positions of a file of another system.

use super::super::error::{ImportError, LineProblem};
use super::super::records::ReadRecord;
use super::AssignedPage;
use super::conversations::seq_before;
use crate::database::{WriteTransaction, for_backend, tx_statement};
use crate::ids::{ConversationId, UserId};
use crate::unread;

const SELECT_SEQ_OF_MESSAGE: &str =
    "SELECT seq FROM messages WHERE conversation_id = $1 AND client_id = $2 ORDER BY seq LIMIT 1";
const COUNT_MEMBER: &str =
    "SELECT COUNT(*) FROM members WHERE conversation_id = $1 AND user_id = $2";

impl AssignedPage<'_> {
    /// Marks messages as read. Returns true if a position changed.
    pub(super) async fn apply_read(
        &mut self,
        tx: &mut WriteTransaction,
        record: &ReadRecord,
    ) -> Result<bool, ImportError> {
        let (id, user) = record.ids()?;
        let last_seq = self.require_conversation(&id)?.last_seq;
        let seq = read_seq(tx, &id, record).await?;
        if seq > last_seq {
            let text = format!(
                "the conversation has only {last_seq} messages so far; put this line after the messages"
            );
            return Err(LineProblem::new("seq", text).into());
        }
        let changed = for_backend!(tx.connection(), c => sqlx::query(unread::UPDATE_READ)
            .bind(seq).bind(id.as_str()).bind(user.as_str()).fetch_optional(c).await?.is_some());
        if !changed {
            require_member(tx, &id, &user).await?;
        }
        Ok(changed)
    }
}

/// `seq` of the last message that was read.
async fn read_seq(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    record: &ReadRecord,
) -> Result<i64, ImportError> {
    if let Some(seq) = record.seq {
        return Ok(seq.to_db());
    }
    if let Some(at) = record.at {
        return Ok(seq_before(tx, id, at.to_db().saturating_add(1)).await?);
    }
    let message_id = record.message_id.as_deref().unwrap_or_default();
    let seq: Option<i64> = tx_statement!(
        tx,
        query_scalar(SELECT_SEQ_OF_MESSAGE, id.as_str(), message_id).fetch_optional
    );
    seq.ok_or_else(|| {
        let text = format!(
            "the conversation has no message {message_id:?} yet; put this line after the message"
        );
        LineProblem::new("messageId", text).into()
    })
}

async fn require_member(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    user: &UserId,
) -> Result<(), ImportError> {
    let members: i64 = tx_statement!(
        tx,
        query_scalar(COUNT_MEMBER, id.as_str(), user.as_str()).fetch_one
    );
    match members {
        0 => {
            let text = format!(
                "{user} is not a member of {id}; put the line of the type `member` before this one"
            );
            Err(LineProblem::new("userId", text).into())
        }
        _ => Ok(()),
    }
}
