//! Rows of the conversation list.

use sqlx::FromRow;

use super::model::{ConversationSummary, MemberRole, format_active_mute};
use super::rows::ConversationRow;
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, for_backend, to_db_integer};
use crate::ids::{ConversationId, UserId};
use crate::messages::{Message, MessageRow};
use crate::unread::count;

/// The inner query sorts the ids of all conversations of the user and keeps those of the page. Only the conversations of
/// the page are read completely.
const SELECT_CONVERSATION_LIST: &str = "
    SELECT c.id, c.kind, c.title, c.pair, c.open, c.history, c.priority, c.created_by, c.created_at, c.last_seq, c.last_at,
        c.rev, c.members_version, c.member_count, c.version, m.role, m.badge_seq, m.own_after, m.muted_until,
        (SELECT COUNT(*) FROM mentions t
            WHERE t.user_id = m.user_id AND t.conversation_id = m.conversation_id AND t.seq > m.badge_seq) AS mentions,
        l.id AS message_id, l.seq AS message_seq, l.sender_id, l.sender_role, l.content, l.metadata, l.client_id,
        l.created_at AS message_created_at, l.edited_at, l.deleted_at, l.rev AS message_rev
    FROM (
        SELECT s.conversation_id, r.last_at
        FROM members s JOIN conversations r ON r.id = s.conversation_id
        WHERE s.user_id = $1 AND (r.last_at < $2 OR (r.last_at = $2 AND r.id > $3))
        ORDER BY r.last_at DESC, r.id LIMIT $4
    ) page
    JOIN members m ON m.conversation_id = page.conversation_id AND m.user_id = $1
    JOIN conversations c ON c.id = page.conversation_id
    LEFT JOIN messages l ON l.conversation_id = c.id AND l.seq = c.last_seq
        AND (c.history = 'all' OR l.seq > m.joined_seq)
    ORDER BY page.last_at DESC, page.conversation_id";

/// A conversation of a user, with the user's counts and the newest message that the user may see.
#[derive(FromRow)]
pub(super) struct ConversationListRow {
    #[sqlx(flatten)]
    pub(super) conversation: ConversationRow,
    #[sqlx(try_from = "String")]
    role: MemberRole,
    #[sqlx(try_from = "i64")]
    badge_seq: u64,
    #[sqlx(try_from = "i64")]
    own_after: u64,
    #[sqlx(try_from = "i64")]
    muted_until: u64,
    #[sqlx(try_from = "i64")]
    mentions: u64,
    #[sqlx(flatten)]
    last_message: LastMessageColumns,
}

/// Columns of the newest message; all `None` if the user may not see it or there is none.
#[derive(FromRow)]
struct LastMessageColumns {
    message_id: Option<String>,
    message_seq: Option<i64>,
    sender_id: Option<String>,
    sender_role: Option<String>,
    content: Option<String>,
    metadata: Option<String>,
    client_id: Option<String>,
    message_created_at: Option<i64>,
    edited_at: Option<i64>,
    deleted_at: Option<i64>,
    message_rev: Option<i64>,
}

/// Reads conversations of a user by their last activity, newest first, starting after this one.
pub(super) async fn find_list(
    database: &Database,
    user: &UserId,
    (last_at, id): (i64, &str),
    limit: u64,
) -> Result<Vec<ConversationListRow>> {
    let rows = for_backend!(database.reader(), pool => sqlx::query_as(SELECT_CONVERSATION_LIST)
        .bind(user.as_str())
        .bind(last_at)
        .bind(id)
        .bind(to_db_integer(limit))
        .fetch_all(pool)
        .await);
    Ok(rows?)
}

impl ConversationListRow {
    /// Converts the row, without the presence of the other user.
    pub(super) fn into_summary(self, now: Timestamp) -> ConversationSummary {
        let last_seq = self.conversation.last_seq;
        ConversationSummary {
            last_message: self.last_message.into_message(&self.conversation.id),
            conversation: self.conversation.into(),
            role: self.role,
            unread: count(last_seq, self.badge_seq, self.own_after),
            mentions: self.mentions,
            muted_until: format_active_mute(self.muted_until, now),
            other_user: None,
        }
    }
}

impl LastMessageColumns {
    fn into_message(self, conversation: &ConversationId) -> Option<Message> {
        let row = MessageRow {
            conversation_id: conversation.clone(),
            seq: self.message_seq?.unsigned_abs(),
            id: self.message_id?,
            sender_id: UserId::new(self.sender_id?).ok()?,
            sender_role: self.sender_role?,
            content: self.content?,
            metadata: self.metadata,
            client_id: self.client_id,
            created_at: self.message_created_at?.unsigned_abs(),
            edited_at: self.edited_at,
            deleted_at: self.deleted_at,
            rev: self.message_rev?.unsigned_abs(),
        };
        Some(row.into_message())
    }
}
