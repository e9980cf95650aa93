//! The rows of conversations and members.
//!
//! Always true: whoever changes the members of a conversation raises its `members_version` first, by which its row is locked
//! until they are done; whoever finds nothing to change undoes that.

use sqlx::FromRow;

use super::ops::{ConversationDraft, ConversationPatch};
use super::words::{ConversationKind, History, Priority};
use crate::context::Timestamp;
use crate::database::{Database, WriteTransaction, on, to_db_integer};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ConversationRow {
    /// Its id.
    #[sqlx(try_from = "String")]
    pub id: ConversationId,
    /// What it is.
    #[sqlx(try_from = "String")]
    pub kind: ConversationKind,
    /// What it is called.
    pub title: Option<String>,
    /// Of a direct conversation: its two users in order, with a blank between.
    pub pair: Option<String>,
    /// 1 if anybody may join a group.
    pub open: i64,
    /// What new members see.
    #[sqlx(try_from = "String")]
    pub history: History,
    /// How much a support conversation presses.
    pub priority: Option<String>,
    /// Who created it; empty for a service.
    pub created_by: Option<String>,
    /// When.
    #[sqlx(try_from = "i64")]
    pub created_at: u64,
    /// Its newest message.
    #[sqlx(try_from = "i64")]
    pub last_seq: u64,
    /// When that was created, or the conversation.
    #[sqlx(try_from = "i64")]
    pub last_at: u64,
    /// Rises with every message, edit and delete.
    #[sqlx(try_from = "i64")]
    pub rev: u64,
    /// Rises with every change of members.
    #[sqlx(try_from = "i64")]
    pub members_version: u64,
    /// How many members there are.
    #[sqlx(try_from = "i64")]
    pub member_count: u64,
}

impl ConversationRow {
    /// How much it presses.
    pub fn priority(&self) -> Option<Priority> {
        Priority::try_from(self.priority.clone()?).ok()
    }

    /// Who created it; none if a service did.
    pub fn creator(&self) -> Option<UserId> {
        UserId::new(self.created_by.as_deref()?).ok()
    }

    /// Whom a user talks to in a direct conversation.
    pub fn other(&self, user: &UserId) -> Option<UserId> {
        let (one, other) = self.pair.as_deref()?.split_once(' ')?;
        let other = if one == user.as_str() { other } else { one };
        UserId::new(other).ok()
    }
}

/// Both users of a direct conversation, as the row has them.
pub(super) fn direct_pair(one: &UserId, other: &UserId) -> String {
    let (first, second) = (one.min(other), one.max(other));
    format!("{first} {second}")
}

/// The columns of a conversation.
macro_rules! conversation_columns {
    () => {
        "id, kind, title, pair, open, history, priority, created_by, created_at, last_seq, last_at, rev, members_version,
            member_count"
    };
}

const SELECT_CONVERSATION: &str = concat!(
    "SELECT ",
    conversation_columns!(),
    " FROM conversations WHERE id = $1"
);
const SELECT_DIRECT: &str = concat!(
    "SELECT ",
    conversation_columns!(),
    " FROM conversations WHERE pair = $1"
);
const SELECT_BY_IDEMPOTENCY_KEY: &str = concat!(
    "SELECT ",
    conversation_columns!(),
    " FROM conversations WHERE created_by = $1 AND idempotency_key = $2"
);
const INSERT_CONVERSATION: &str = concat!(
    "INSERT INTO conversations (id, kind, title, pair, open, history, priority, created_by, created_at, idempotency_key,
        last_at, members_version, member_count)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9, 1, $11) ON CONFLICT DO NOTHING RETURNING ",
    conversation_columns!()
);
const BUMP_MEMBERS_VERSION: &str = concat!(
    "UPDATE conversations SET members_version = members_version + 1 WHERE id = $1 RETURNING ",
    conversation_columns!()
);
const ADJUST_MEMBER_COUNT: &str = concat!(
    "UPDATE conversations SET member_count = member_count + $2 WHERE id = $1 RETURNING ",
    conversation_columns!()
);
const UPDATE_CONVERSATION_FIELDS: &str = concat!(
    "UPDATE conversations SET title = COALESCE($2, title), open = COALESCE($3, open),
        history = COALESCE($4, history), priority = COALESCE($5, priority)
    WHERE id = $1 RETURNING ",
    conversation_columns!()
);
const DELETE: &str = "DELETE FROM conversations WHERE id = $1";
const INSERT_DELETED_ID: &str =
    "INSERT INTO deleted_conversations (id, deleted_at) VALUES ($1, $2)";
const COUNT_DELETED_ID: &str = "SELECT COUNT(*) FROM deleted_conversations WHERE id = $1";

/// A conversation.
pub(super) async fn find(
    database: &Database,
    id: &ConversationId,
) -> Result<Option<ConversationRow>> {
    Ok(
        on!(database.reader(), pool => sqlx::query_as(SELECT_CONVERSATION).bind(id.as_str()).fetch_optional(pool).await)?,
    )
}

/// The direct conversation of a pair.
pub(super) async fn find_direct(
    tx: &mut WriteTransaction,
    pair: &str,
) -> Result<Option<ConversationRow>> {
    Ok(on!(tx.connection(), c => sqlx::query_as(SELECT_DIRECT).bind(pair).fetch_optional(c).await)?)
}

/// What somebody created under a key.
pub(super) async fn find_by_idempotency_key(
    tx: &mut WriteTransaction,
    creator: &str,
    key: &str,
) -> Result<Option<ConversationRow>> {
    Ok(
        on!(tx.connection(), c => sqlx::query_as(SELECT_BY_IDEMPOTENCY_KEY)
        .bind(creator)
        .bind(key)
        .fetch_optional(c)
        .await)?,
    )
}

/// Creates a conversation of so many members; none if its id, pair or key is taken.
pub(super) async fn insert(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    new: &ConversationDraft,
    members: usize,
    now: Timestamp,
) -> Result<Option<ConversationRow>> {
    Ok(
        on!(tx.connection(), c => sqlx::query_as(INSERT_CONVERSATION)
        .bind(id.as_str())
        .bind(new.kind.word())
        .bind(new.title.as_deref())
        .bind(new.direct_pair.as_deref())
        .bind(i64::from(new.open))
        .bind(new.history.word())
        .bind(new.priority.map(Priority::word))
        .bind(new.creator.as_ref().map_or("", UserId::as_str))
        .bind(to_db_integer(now.as_millis()))
        .bind(new.idempotency_key.as_deref())
        .bind(i64::try_from(members).unwrap_or(i64::MAX))
        .fetch_optional(c)
        .await)?,
    )
}

/// Locks a conversation and raises its version; none if there is no such one.
pub(super) async fn lock_and_bump_members_version(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Option<ConversationRow>> {
    Ok(
        on!(tx.connection(), c => sqlx::query_as(BUMP_MEMBERS_VERSION).bind(id.as_str()).fetch_optional(c).await)?,
    )
}

/// Counts so many members more, or less, of a locked conversation.
pub(super) async fn adjust_member_count(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    more: i64,
) -> Result<ConversationRow> {
    Ok(
        on!(tx.connection(), c => sqlx::query_as(ADJUST_MEMBER_COUNT)
        .bind(id.as_str())
        .bind(more)
        .fetch_one(c)
        .await)?,
    )
}

/// Changes a conversation itself; none if there is no such one.
pub(super) async fn update_fields(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    patch: &ConversationPatch,
) -> Result<Option<ConversationRow>> {
    Ok(
        on!(tx.connection(), c => sqlx::query_as(UPDATE_CONVERSATION_FIELDS)
        .bind(id.as_str())
        .bind(patch.title.as_deref())
        .bind(patch.open.map(i64::from))
        .bind(patch.history.map(History::word))
        .bind(patch.priority.map(Priority::word))
        .fetch_optional(c)
        .await)?,
    )
}

/// Deletes a conversation with all that belongs to it. Its id is used up.
pub(super) async fn delete(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    now: Timestamp,
) -> Result<()> {
    on!(tx.connection(), c => {
        sqlx::query(DELETE).bind(id.as_str()).execute(&mut *c).await?;
        sqlx::query(INSERT_DELETED_ID).bind(id.as_str()).bind(to_db_integer(now.as_millis())).execute(&mut *c).await?;
    });
    Ok(())
}

/// Whether there was a conversation of this id.
pub(super) async fn is_deleted_id(tx: &mut WriteTransaction, id: &ConversationId) -> Result<bool> {
    let count: i64 = on!(tx.connection(), c => sqlx::query_scalar(COUNT_DELETED_ID).bind(id.as_str()).fetch_one(c).await)?;
    Ok(count > 0)
}
