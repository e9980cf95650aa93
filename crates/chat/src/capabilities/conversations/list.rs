//! The list of a user's conversations: the main screen of a chat application.
//!
//! Invariant: a page costs one database statement and one request to the store, however many conversations it has.

use sqlx::FromRow;

use super::Conversations;
use super::enums::MemberRole;
use super::model::{ConversationSummary, format_active_mute};
use super::pagination;
use super::rows::ConversationRow;
use crate::api::error::Result;
use crate::context::Timestamp;
use crate::database::{on, to_db_integer};
use crate::ids::{ConversationId, UserId};
use crate::messages::{Message, MessageRow};
use crate::unread::count;

const SELECT_CONVERSATION_LIST: &str = "
    SELECT c.id, c.kind, c.title, c.pair, c.open, c.history, c.priority, c.created_by, c.created_at, c.last_seq, c.last_at,
        c.rev, c.members_version, c.member_count, m.role, m.badge_seq, m.own_after, m.muted_until,
        (SELECT COUNT(*) FROM mentions t
            WHERE t.user_id = m.user_id AND t.conversation_id = m.conversation_id AND t.seq > m.badge_seq) AS mentions,
        l.id AS message_id, l.seq AS message_seq, l.sender_id, l.sender_role, l.content, l.metadata, l.client_id,
        l.created_at AS message_created_at, l.edited_at, l.deleted_at, l.rev AS message_rev
    FROM members m
    JOIN conversations c ON c.id = m.conversation_id
    LEFT JOIN messages l ON l.conversation_id = c.id AND l.seq = c.last_seq
        AND (c.history = 'all' OR l.seq > m.joined_seq)
    WHERE m.user_id = $1 AND (c.last_at < $2 OR (c.last_at = $2 AND c.id > $3))
    ORDER BY c.last_at DESC, c.id LIMIT $4";

#[derive(FromRow)]
struct ConversationListRow {
    #[sqlx(flatten)]
    conversation: ConversationRow,
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

impl Conversations {
    /// Lists the conversations of a user by their last activity, newest first, with the cursor of the next page.
    pub(super) async fn list_conversations(
        &self,
        user: &UserId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<(Vec<ConversationSummary>, Option<String>)> {
        let (last_at, after) = match cursor {
            Some(cursor) => parse_list_cursor(&pagination::decode_cursor(cursor)?)?,
            None => (i64::MAX, String::new()),
        };
        // One more row shows whether there is a next page.
        let mut rows: Vec<ConversationListRow> = on!(self.database.reader(), pool => sqlx::query_as(SELECT_CONVERSATION_LIST)
            .bind(user.as_str())
            .bind(last_at)
            .bind(after)
            .bind(to_db_integer(limit + 1))
            .fetch_all(pool)
            .await)?;
        let page = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = rows.len() > page;
        rows.truncate(page);
        let next = rows.last().filter(|_| more).map(|row| {
            let row = &row.conversation;
            pagination::encode_cursor(&format!("{} {}", row.last_at, row.id))
        });
        let others = rows.iter().filter_map(|row| row.conversation.other(user));
        let others: Vec<UserId> = others.collect();
        let mut statuses = self.presence.statuses(&others).await?.into_iter();
        let now = self.ctx.now();
        let listed = rows.into_iter().map(|row| {
            let other = row.conversation.other(user);
            let mut listed = row.into_summary(now);
            listed.other = other.and_then(|_| statuses.next());
            listed
        });
        Ok((listed.collect(), next))
    }
}

/// Parses a cursor of the list: `last_at` and id of the last conversation of the previous page.
fn parse_list_cursor(text: &str) -> Result<(i64, String)> {
    let (last_at, id) = text
        .split_once(' ')
        .ok_or_else(pagination::invalid_cursor)?;
    let last_at = last_at.parse().map_err(|_| pagination::invalid_cursor())?;
    ConversationId::new(id).map_err(|_| pagination::invalid_cursor())?;
    Ok((last_at, id.to_owned()))
}

impl ConversationListRow {
    fn into_summary(self, now: Timestamp) -> ConversationSummary {
        let last_seq = self.conversation.last_seq;
        ConversationSummary {
            last_message: self.last_message.into_message(&self.conversation.id),
            conversation: self.conversation.into(),
            role: self.role,
            unread: count(last_seq, self.badge_seq, self.own_after),
            mentions: self.mentions,
            muted_until: format_active_mute(self.muted_until, now),
            other: None,
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
