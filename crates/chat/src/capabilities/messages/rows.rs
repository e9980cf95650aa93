//! SQL statements of messages, except those of the writer.
//!
//! Invariants:
//! 1. Each function runs one statement, so the rows that it returns are consistent with each other.
//! 2. The messages of a deleted conversation are removed later. A statement that reads messages without the conversation
//!    or a member therefore excludes them.

use sqlx::{FromRow, Row};

use super::message_row::{MessageRow, message_columns};
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::conversations::{HistoryVisibility, MemberRole};
use crate::database::{
    Database, WriteTransaction, for_backend, from_db_integer, read_statement, to_db_integer,
    tx_statement,
};
use crate::ids::{ConversationId, UserId};
use crate::keys::UnknownName;

/// Maximum rows per statement, equal to the length of the recent list.
pub(super) const RECENT_LIST_LEN: u64 = 100;

/// State of a conversation row when its messages were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ConversationHead {
    pub(super) last_seq: u64,
    pub(super) rev: u64,
    pub(super) members_version: u64,
    pub(super) member_count: u64,
}

/// Message rows together with the head of their conversation, read at the same moment.
#[derive(Debug, Clone)]
pub(super) struct HeadAndRows {
    pub(super) head: ConversationHead,
    /// In `seq` order.
    pub(super) rows: Vec<MessageRow>,
}

macro_rules! select_with_head {
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

const SELECT_BEFORE: &str = select_with_head!(
    "seq < $2 AND seq >= (CASE WHEN $2 <= last_seq THEN $2 ELSE last_seq + 1 END) - $3"
);
const SELECT_BETWEEN: &str = select_with_head!("seq > $2 AND seq < $3");
const SELECT_LAST_SEQ_BEFORE: &str = "
    SELECT seq FROM messages WHERE conversation_id = $1 AND created_at < $2 ORDER BY seq DESC LIMIT 1";
const SELECT_BY_CLIENT_ID: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE conversation_id = $1 AND sender_id = $2 AND client_id = $3
        AND EXISTS (SELECT 1 FROM conversations WHERE id = $1)"
);
const SELECT_CHANGED_IN_RANGE: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages
    WHERE conversation_id = $1 AND rev > $2 AND seq > $3 AND seq <= $4
        AND (edited_at IS NOT NULL OR deleted_at IS NOT NULL)
    ORDER BY rev LIMIT $5"
);
const SELECT_LAST_UNCHANGED_REV: &str = "
    SELECT rev FROM messages
    WHERE conversation_id = $1 AND seq <= $2 AND edited_at IS NULL AND deleted_at IS NULL
    ORDER BY seq DESC LIMIT 1";
const SELECT_VISIBILITY: &str = "
    SELECT history, (SELECT joined_seq FROM members WHERE conversation_id = $1 AND user_id = $2)
    FROM conversations WHERE id = $1";
const BUMP_REV: &str = "
    UPDATE conversations SET rev = rev + 1 WHERE id = $1 RETURNING rev, members_version";
const SELECT_ONE: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE conversation_id = $1 AND seq = $2"
);
const SELECT_MEMBER_ROLE: &str =
    "SELECT role FROM members WHERE conversation_id = $1 AND user_id = $2";
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

/// Parses the rows of a statement made by `select_with_head!`; `None` if the conversation does not exist.
macro_rules! parse_head_and_rows {
    ($rows:expr) => {{
        let rows = $rows;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let head = ConversationHead {
            last_seq: from_db_integer(first.try_get("last_seq")?),
            rev: from_db_integer(first.try_get("head_rev")?),
            members_version: from_db_integer(first.try_get("members_version")?),
            member_count: from_db_integer(first.try_get("member_count")?),
        };
        let mut messages = Vec::with_capacity(rows.len());
        for row in &rows {
            // A conversation without a message in the range has one row, whose message columns are NULL.
            if row.try_get::<Option<i64>, _>("seq")?.is_some() {
                messages.push(MessageRow::from_row(row)?);
            }
        }
        Ok(Some(HeadAndRows {
            head,
            rows: messages,
        }))
    }};
}

/// Reads the newest messages, as many as the recent list holds.
pub(super) async fn find_newest(
    database: &Database,
    conversation: &ConversationId,
) -> Result<Option<HeadAndRows>> {
    find_before(database, conversation, u64::MAX, RECENT_LIST_LEN).await
}

/// Reads the newest messages before a `seq`, at most [`RECENT_LIST_LEN`].
pub(super) async fn find_before(
    database: &Database,
    id: &ConversationId,
    before: u64,
    limit: u64,
) -> Result<Option<HeadAndRows>> {
    let (before, limit) = (
        to_db_integer(before),
        to_db_integer(limit.min(RECENT_LIST_LEN)),
    );
    for_backend!(database.reader(), pool => {
        let query = sqlx::query(SELECT_BEFORE).bind(id.as_str()).bind(before).bind(limit);
        parse_head_and_rows!(query.fetch_all(pool).await?)
    })
}

/// Reads the messages after `after` and before `before`; the range may contain at most [`RECENT_LIST_LEN`] messages.
pub(super) async fn find_between(
    database: &Database,
    id: &ConversationId,
    after: u64,
    before: u64,
) -> Result<Option<HeadAndRows>> {
    debug_assert!(before.saturating_sub(after) <= RECENT_LIST_LEN + 1);
    let (after, before) = (to_db_integer(after), to_db_integer(before));
    for_backend!(database.reader(), pool => {
        let query = sqlx::query(SELECT_BETWEEN).bind(id.as_str()).bind(after).bind(before);
        parse_head_and_rows!(query.fetch_all(pool).await?)
    })
}

/// Reads the newest `seq` that was created before a time in ms; 0 if there is none.
pub(super) async fn last_seq_before(
    database: &Database,
    id: &ConversationId,
    time_ms: u64,
) -> Result<u64> {
    let time_ms = to_db_integer(time_ms);
    let seq: Option<i64> = read_statement!(
        database,
        query_scalar(SELECT_LAST_SEQ_BEFORE, id.as_str(), time_ms).fetch_optional
    );
    Ok(seq.map_or(0, from_db_integer))
}

/// Reads the message of a sender with a client id.
pub(super) async fn find_by_client_id(
    database: &Database,
    id: &ConversationId,
    sender: &UserId,
    client_id: &str,
) -> Result<Option<MessageRow>> {
    Ok(read_statement!(
        database,
        query_as(SELECT_BY_CLIENT_ID, id.as_str(), sender.as_str(), client_id).fetch_optional
    ))
}

/// Reads messages after `after` and up to `last` that were edited or deleted after `rev`, by revision.
pub(super) async fn find_changed_in_range(
    database: &Database,
    id: &ConversationId,
    rev: u64,
    (after, last): (u64, u64),
    limit: u64,
) -> Result<Vec<MessageRow>> {
    let [rev, after, last, limit] = [rev, after, last, limit].map(to_db_integer);
    Ok(read_statement!(
        database,
        query_as(
            SELECT_CHANGED_IN_RANGE,
            id.as_str(),
            rev,
            after,
            last,
            limit
        )
        .fetch_all
    ))
}

/// Reads the revision of the newest message up to `seq` that was never changed; 0 if there is none.
pub(super) async fn last_unchanged_rev(
    database: &Database,
    id: &ConversationId,
    seq: u64,
) -> Result<u64> {
    let seq = to_db_integer(seq);
    let rev: Option<i64> = read_statement!(
        database,
        query_scalar(SELECT_LAST_UNCHANGED_REV, id.as_str(), seq).fetch_optional
    );
    Ok(rev.map_or(0, from_db_integer))
}

/// Reads the `history` setting of a conversation, and the `joined_seq` of a user, `None` if the user is not a member.
pub(super) async fn find_visibility(
    database: &Database,
    id: &ConversationId,
    user: &UserId,
) -> Result<Option<(HistoryVisibility, Option<u64>)>> {
    let row: Option<(String, Option<i64>)> = read_statement!(
        database,
        query_as(SELECT_VISIBILITY, id.as_str(), user.as_str()).fetch_optional
    );
    let Some((history, joined_seq)) = row else {
        return Ok(None);
    };
    Ok(Some((
        parse_enum(history)?,
        joined_seq.map(from_db_integer),
    )))
}

fn parse_enum<T: TryFrom<String, Error = UnknownName>>(text: String) -> Result<T> {
    T::try_from(text).map_err(|error| sqlx::Error::Decode(error.into()).into())
}

/// Increments the revision of a conversation and locks its row until the end of the transaction. Returns the revision and
/// the `members_version`; `None` if the conversation does not exist.
pub(super) async fn lock_and_bump_rev(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Option<(u64, u64)>> {
    let locked: Option<(i64, i64)> =
        tx_statement!(tx, query_as(BUMP_REV, id.as_str()).fetch_optional);
    Ok(locked.map(|(rev, members)| (from_db_integer(rev), from_db_integer(members))))
}

/// Reads one message in a transaction.
pub(super) async fn find_one(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    seq: u64,
) -> Result<Option<MessageRow>> {
    Ok(tx_statement!(
        tx,
        query_as(SELECT_ONE, id.as_str(), to_db_integer(seq)).fetch_optional
    ))
}

/// Reads the role of a member in a transaction; `None` if the user is not a member.
pub(super) async fn find_member_role(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    user: &UserId,
) -> Result<Option<MemberRole>> {
    let role: Option<String> = tx_statement!(
        tx,
        query_scalar(SELECT_MEMBER_ROLE, id.as_str(), user.as_str()).fetch_optional
    );
    role.map(parse_enum).transpose()
}

/// New column values of an edited message.
pub(super) struct EditedColumns<'a> {
    pub(super) content: &'a str,
    pub(super) metadata: Option<&'a str>,
    pub(super) at: Timestamp,
    pub(super) rev: u64,
}

/// Writes the new content of a message.
pub(super) async fn edit(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    seq: u64,
    edited: &EditedColumns<'_>,
) -> Result<MessageRow> {
    let [at, rev, seq] = [edited.at.as_millis(), edited.rev, seq].map(to_db_integer);
    Ok(tx_statement!(
        tx,
        query_as(
            EDIT,
            edited.content,
            edited.metadata,
            at,
            rev,
            id.as_str(),
            seq
        )
        .fetch_one
    ))
}

/// Deletes the content of a message.
pub(super) async fn delete(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    seq: u64,
    at: Timestamp,
    rev: u64,
) -> Result<MessageRow> {
    let [at, rev, seq] = [at.as_millis(), rev, seq].map(to_db_integer);
    Ok(tx_statement!(
        tx,
        query_as(DELETE, at, rev, id.as_str(), seq).fetch_one
    ))
}
