//! Messages as database rows.
//!
//! Invariants:
//! 1. A deleted message is returned without its content and metadata.

use crate::clock::Timestamp;
use crate::ids::{ConversationId, UserId};

use super::Message;

/// The columns of a [`MessageRow`], for `concat!`.
macro_rules! message_columns {
    () => {
        "conversation_id, seq, id, sender_id, sender_role, content, metadata, client_id, created_at, edited_at, deleted_at, rev"
    };
}
pub(crate) use message_columns;

/// A row of `messages`.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct MessageRow {
    #[sqlx(try_from = "String")]
    pub conversation_id: ConversationId,
    #[sqlx(try_from = "i64")]
    pub seq: u64,
    pub id: String,
    #[sqlx(try_from = "String")]
    pub sender_id: UserId,
    pub sender_role: String,
    pub content: String,
    /// JSON text.
    pub metadata: Option<String>,
    pub client_id: Option<String>,
    #[sqlx(try_from = "i64")]
    pub created_at: u64,
    pub edited_at: Option<i64>,
    pub deleted_at: Option<i64>,
    #[sqlx(try_from = "i64")]
    pub rev: u64,
}

impl MessageRow {
    /// Converts the row into a message as clients receive it.
    pub fn into_message(self) -> Message {
        let deleted = self.deleted_at.is_some();
        let metadata = self.metadata.filter(|_| !deleted);
        Message {
            id: self.id,
            conversation_id: self.conversation_id,
            seq: self.seq,
            sender_id: self.sender_id,
            content: match deleted {
                true => String::new(),
                false => self.content,
            },
            // Parlor writes only JSON. A value that another program wrote is not passed on if it is not JSON.
            metadata: metadata.and_then(|text| serde_json::from_str(&text).ok()),
            client_id: self.client_id,
            created_at: Timestamp(self.created_at).to_iso8601(),
            edited_at: self.edited_at.map(format_iso_ms),
            deleted_at: self.deleted_at.map(format_iso_ms),
            rev: self.rev,
        }
    }
}

fn format_iso_ms(ms: i64) -> String {
    Timestamp(ms.max(0).cast_unsigned()).to_iso8601()
}
