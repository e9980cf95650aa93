//! The statements of messages, but for those that write them.
//!
//! Always true: what is read together was true together: each function is one statement.

use sqlx::{FromRow, Row};

use super::row::{MessageRow, message_columns};
use crate::context::Moment;
use crate::database::{Database, Transaction, number, on, unsigned};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

/// Most rows of one answer, and as many as the recent list holds.
pub(super) const PAGE: u64 = 100;

/// A conversation when its messages were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) last_seq: u64,
    pub(crate) rev: u64,
    pub(crate) members_version: u64,
    pub(crate) member_count: u64,
}

/// Some of a conversation's messages and what it was at that moment.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) head: Head,
    /// In the order of their `seq`.
    pub(super) rows: Vec<MessageRow>,
}

macro_rules! with_head {
    ($range:literal) => {
        concat!(
            "SELECT last_seq, head_rev, members_version, member_count, ",
            message_columns!(),
            " FROM (SELECT last_seq, rev AS head_rev, members_version, member_count
                FROM conversations WHERE id = $1) AS head
            LEFT JOIN messages ON conversation_id = $1 AND ",
            $range,
            " ORDER BY seq"
        )
    };
}

const BEFORE: &str =
    with_head!("seq < $2 AND seq >= (CASE WHEN $2 <= last_seq THEN $2 ELSE last_seq + 1 END) - $3");
const BETWEEN: &str = with_head!("seq > $2 AND seq < $3");
const LAST_BEFORE: &str = "
    SELECT seq FROM messages WHERE conversation_id = $1 AND created_at < $2 ORDER BY seq DESC LIMIT 1";
const BY_CLIENT_ID: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE conversation_id = $1 AND sender_id = $2 AND client_id = $3"
);
const CHANGED: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages
    WHERE conversation_id = $1 AND rev > $2 AND seq > $3 AND (edited_at IS NOT NULL OR deleted_at IS NOT NULL)
    ORDER BY rev LIMIT $4"
);
const CHANGED_BETWEEN: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages
    WHERE conversation_id = $1 AND rev > $2 AND seq > $3 AND seq <= $4
        AND (edited_at IS NOT NULL OR deleted_at IS NOT NULL)
    ORDER BY rev LIMIT $5"
);
const UNCHANGED_REV: &str = "
    SELECT rev FROM messages
    WHERE conversation_id = $1 AND seq <= $2 AND edited_at IS NULL AND deleted_at IS NULL
    ORDER BY seq DESC LIMIT 1";
const VISIBLE: &str = "
    SELECT history, (SELECT joined_seq FROM members WHERE conversation_id = $1 AND user_id = $2)
    FROM conversations WHERE id = $1";
const LATELY: &str = "
    SELECT id, last_seq FROM conversations
    WHERE id IN (SELECT conversation_id FROM messages WHERE id >= $1 AND id < $2) AND id > $3
    ORDER BY id LIMIT $4";
const LATELY_USERS: &str = "
    SELECT DISTINCT user_id FROM members
    WHERE conversation_id IN (
        SELECT id FROM conversations WHERE member_count <= $1
            AND id IN (SELECT conversation_id FROM messages WHERE id >= $2 AND id < $3)) AND user_id > $4
    ORDER BY user_id LIMIT $5";
const CHANGED_LATELY: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages
    WHERE (COALESCE(deleted_at, edited_at), id) > ($1, $2) AND COALESCE(deleted_at, edited_at) < $3
        AND (edited_at IS NOT NULL OR deleted_at IS NOT NULL)
    ORDER BY COALESCE(deleted_at, edited_at), id LIMIT $4"
);
const RAISE: &str = "UPDATE conversations SET rev = rev + 1 WHERE id = $1 RETURNING rev";
const ONE: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE conversation_id = $1 AND seq = $2"
);
const MEMBER: &str = "SELECT role FROM members WHERE conversation_id = $1 AND user_id = $2";
const EDIT: &str = concat!(
    "UPDATE messages SET content = $1, metadata = $2, edited_at = $3, rev = $4
    WHERE conversation_id = $5 AND seq = $6 RETURNING ",
    message_columns!()
);
const DELETE: &str = concat!(
    "UPDATE messages SET content = '', metadata = NULL, deleted_at = $1, rev = $2
    WHERE conversation_id = $3 AND seq = $4 RETURNING ",
    message_columns!()
);

/// The rows of a statement made by `with_head!`; none if there is no such conversation.
macro_rules! read {
    ($rows:expr) => {{
        let rows = $rows;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let head = Head {
            last_seq: unsigned(first.try_get("last_seq")?),
            rev: unsigned(first.try_get("head_rev")?),
            members_version: unsigned(first.try_get("members_version")?),
            member_count: unsigned(first.try_get("member_count")?),
        };
        let mut messages = Vec::with_capacity(rows.len());
        for row in &rows {
            // A conversation without a message has one row without one.
            if row.try_get::<Option<i64>, _>("seq")?.is_some() {
                messages.push(MessageRow::from_row(row)?);
            }
        }
        Ok(Some(Read {
            head,
            rows: messages,
        }))
    }};
}

/// The newest messages, as many as the recent list holds.
pub(super) async fn newest(
    database: &Database,
    conversation: &ConversationId,
) -> Result<Option<Read>> {
    before(database, conversation, u64::MAX, PAGE).await
}

/// The newest messages before this one, [`PAGE`] at most.
pub(super) async fn before(
    database: &Database,
    conversation: &ConversationId,
    before: u64,
    limit: u64,
) -> Result<Option<Read>> {
    on!(database.reader(), pool => {
        let query = sqlx::query(BEFORE).bind(conversation.as_str());
        let query = query.bind(number(before)).bind(number(limit.min(PAGE)));
        read!(query.fetch_all(pool).await?)
    })
}

/// The messages after `after` and before `before`, which may be [`PAGE`] at most.
pub(super) async fn between(
    database: &Database,
    conversation: &ConversationId,
    after: u64,
    before: u64,
) -> Result<Option<Read>> {
    debug_assert!(before.saturating_sub(after) <= PAGE + 1);
    on!(database.reader(), pool => {
        let query = sqlx::query(BETWEEN).bind(conversation.as_str());
        let query = query.bind(number(after)).bind(number(before));
        read!(query.fetch_all(pool).await?)
    })
}

/// The newest message that was created before a moment; 0 if there is none.
pub(super) async fn last_before(
    database: &Database,
    conversation: &ConversationId,
    moment: u64,
) -> Result<u64> {
    let seq: Option<i64> = on!(database.reader(), pool => {
        let query = sqlx::query_scalar(LAST_BEFORE).bind(conversation.as_str());
        query.bind(number(moment)).fetch_optional(pool).await?
    });
    Ok(seq.map_or(0, unsigned))
}

/// The message that its sender calls so.
pub(super) async fn by_client_id(
    database: &Database,
    conversation: &ConversationId,
    sender: &UserId,
    client_id: &str,
) -> Result<Option<MessageRow>> {
    let row = on!(database.reader(), pool => {
        let query = sqlx::query_as(BY_CLIENT_ID).bind(conversation.as_str());
        query.bind(sender.as_str()).bind(client_id).fetch_optional(pool).await?
    });
    Ok(row)
}

/// Edited and deleted messages after `hidden` whose revision is after `rev`, in the order of their revisions.
pub(super) async fn changed(
    database: &Database,
    conversation: &ConversationId,
    rev: u64,
    hidden: u64,
    limit: u64,
) -> Result<Vec<MessageRow>> {
    let rows = on!(database.reader(), pool => {
        let query = sqlx::query_as(CHANGED).bind(conversation.as_str()).bind(number(rev));
        query.bind(number(hidden)).bind(number(limit)).fetch_all(pool).await?
    });
    Ok(rows)
}

/// Of the messages after the first bound, up to the second, those that were edited or deleted after `rev`, in the order of
/// their revisions.
pub(super) async fn changed_between(
    database: &Database,
    conversation: &ConversationId,
    rev: u64,
    (after, last): (u64, u64),
    limit: u64,
) -> Result<Vec<MessageRow>> {
    let rows = on!(database.reader(), pool => {
        let query = sqlx::query_as(CHANGED_BETWEEN).bind(conversation.as_str());
        let query = query.bind(number(rev)).bind(number(after)).bind(number(last));
        query.bind(number(limit)).fetch_all(pool).await?
    });
    Ok(rows)
}

/// The revision of the newest message up to `seq` that was never changed; 0 if there is none.
pub(super) async fn unchanged_rev(
    database: &Database,
    conversation: &ConversationId,
    seq: u64,
) -> Result<u64> {
    let rev: Option<i64> = on!(database.reader(), pool => {
        let query = sqlx::query_scalar(UNCHANGED_REV).bind(conversation.as_str());
        query.bind(number(seq)).fetch_optional(pool).await?
    });
    Ok(rev.map_or(0, unsigned))
}

/// What decides which messages a user sees: the conversation's `history`, and when the user came.
pub(super) async fn visible(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<Option<(String, Option<u64>)>> {
    let row: Option<(String, Option<i64>)> = on!(database.reader(), pool => {
        let query = sqlx::query_as(VISIBLE).bind(conversation.as_str());
        query.bind(user.as_str()).fetch_optional(pool).await?
    });
    Ok(row.map(|(history, joined)| (history, joined.map(unsigned))))
}

/// Conversations after `after` in which a message was written in a span of time, by id, and their last messages.
pub(super) async fn lately(
    database: &Database,
    from: Moment,
    to: Moment,
    after: &str,
    limit: u64,
) -> Result<Vec<(ConversationId, u64)>> {
    let found: Vec<(String, i64)> = on!(database.reader(), pool => {
        let query = sqlx::query_as(LATELY).bind(first_id(from)).bind(first_id(to));
        query.bind(after).bind(number(limit)).fetch_all(pool).await?
    });
    let found = found.into_iter();
    found
        .map(|(id, last)| Ok((ConversationId::new(id)?, unsigned(last))))
        .collect()
}

/// Members of conversations of at most `most` members in which messages were written in this time, by id, after one.
pub(super) async fn lately_users(
    database: &Database,
    most: u64,
    (from, to): (Moment, Moment),
    after: &str,
    limit: u64,
) -> Result<Vec<UserId>> {
    let found: Vec<String> = on!(database.reader(), pool => {
        let query = sqlx::query_scalar(LATELY_USERS).bind(number(most));
        let query = query.bind(first_id(from)).bind(first_id(to));
        query.bind(after).bind(number(limit)).fetch_all(pool).await?
    });
    let users = found.into_iter().map(UserId::new);
    Ok(users.collect::<std::result::Result<_, _>>()?)
}

/// Messages that were edited or deleted in a span of time, by when that was and their ids, after one; [`PAGE`] at most.
pub(super) async fn changed_lately(
    database: &Database,
    (from, to): (Moment, Moment),
    after: &str,
) -> Result<Vec<MessageRow>> {
    let rows = on!(database.reader(), pool => {
        let query = sqlx::query_as(CHANGED_LATELY).bind(number(from.ms())).bind(after);
        query.bind(number(to.ms())).bind(number(PAGE)).fetch_all(pool).await?
    });
    Ok(rows)
}

/// The lowest id that a message of this moment can have.
fn first_id(moment: Moment) -> String {
    let ms = moment.ms() & 0xffff_ffff_ffff;
    format!("{:08x}-{:04x}-", ms >> 16, ms & 0xffff)
}

/// Raises the revision of a conversation and holds its row until the end of the transaction; none if there is no such
/// conversation.
pub(super) async fn raise(
    tx: &mut Transaction,
    conversation: &ConversationId,
) -> Result<Option<u64>> {
    let rev: Option<i64> = on!(tx.connection(), c => {
        sqlx::query_scalar(RAISE).bind(conversation.as_str()).fetch_optional(c).await?
    });
    Ok(rev.map(unsigned))
}

/// A message, in a transaction.
pub(super) async fn one(
    tx: &mut Transaction,
    conversation: &ConversationId,
    seq: u64,
) -> Result<Option<MessageRow>> {
    let row = on!(tx.connection(), c => {
        let query = sqlx::query_as(ONE).bind(conversation.as_str());
        query.bind(number(seq)).fetch_optional(c).await?
    });
    Ok(row)
}

/// The role of a member, in a transaction.
pub(super) async fn role(
    tx: &mut Transaction,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<Option<String>> {
    let role = on!(tx.connection(), c => {
        let query = sqlx::query_scalar(MEMBER).bind(conversation.as_str());
        query.bind(user.as_str()).fetch_optional(c).await?
    });
    Ok(role)
}

/// What a message becomes.
pub(super) struct Edited<'a> {
    pub(super) content: &'a str,
    pub(super) metadata: Option<&'a str>,
    pub(super) at: Moment,
    pub(super) rev: u64,
}

/// Gives a message another content.
pub(super) async fn edit(
    tx: &mut Transaction,
    conversation: &ConversationId,
    seq: u64,
    edited: &Edited<'_>,
) -> Result<MessageRow> {
    let row = on!(tx.connection(), c => {
        let query = sqlx::query_as(EDIT).bind(edited.content).bind(edited.metadata);
        let query = query.bind(number(edited.at.ms())).bind(number(edited.rev));
        query.bind(conversation.as_str()).bind(number(seq)).fetch_one(c).await?
    });
    Ok(row)
}

/// Takes the content of a message away.
pub(super) async fn delete(
    tx: &mut Transaction,
    conversation: &ConversationId,
    seq: u64,
    at: Moment,
    rev: u64,
) -> Result<MessageRow> {
    let row = on!(tx.connection(), c => {
        let query = sqlx::query_as(DELETE).bind(number(at.ms())).bind(number(rev));
        query.bind(conversation.as_str()).bind(number(seq)).fetch_one(c).await?
    });
    Ok(row)
}
