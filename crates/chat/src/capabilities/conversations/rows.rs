//! Rows of conversations.
//!
//! Invariant: a transaction that changes members first increments `members_version`, which locks the conversation's row
//! until the transaction ends. If there is nothing to change, the rollback undoes the increment.

use sqlx::FromRow;

use super::model::{
    ConversationDraft, ConversationKind, ConversationPatch, HistoryVisibility, MembershipChange,
    SupportPriority,
};
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, WriteTransaction, for_backend, to_db_integer};
use crate::ids::{ConversationId, UserId};

/// Row of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ConversationRow {
    /// Id of the conversation.
    #[sqlx(try_from = "String")]
    pub id: ConversationId,
    /// Kind of the conversation.
    #[sqlx(try_from = "String")]
    pub kind: ConversationKind,
    /// Title; `None` or empty if there is none.
    pub title: Option<String>,
    /// The two user ids of a direct conversation, sorted and separated by a space.
    pub pair: Option<String>,
    /// 1 if every user may join the group.
    pub open: i64,
    /// Whether members see messages that were sent before they joined.
    #[sqlx(try_from = "String")]
    pub history: HistoryVisibility,
    /// Priority of a support conversation.
    pub priority: Option<String>,
    /// Id of the creator; empty if a service created the conversation without acting for a user.
    pub created_by: Option<String>,
    /// Time of the creation in ms.
    #[sqlx(try_from = "i64")]
    pub created_at: u64,
    /// `seq` of the newest message; 0 if there is none.
    #[sqlx(try_from = "i64")]
    pub last_seq: u64,
    /// Time of the newest message, or of the creation if there is none, in ms.
    #[sqlx(try_from = "i64")]
    pub last_at: u64,
    /// Revision; increases with every message, edit and delete.
    #[sqlx(try_from = "i64")]
    pub rev: u64,
    /// Increases with every change of members.
    #[sqlx(try_from = "i64")]
    pub members_version: u64,
    /// Number of members.
    #[sqlx(try_from = "i64")]
    pub member_count: u64,
    /// Increases with every change of title, open, history or priority.
    #[sqlx(try_from = "i64")]
    pub version: u64,
}

impl ConversationRow {
    /// The other user of a direct conversation.
    pub(super) fn other_user(&self, user: &UserId) -> Option<UserId> {
        let (one, other) = self.pair.as_deref()?.split_once(' ')?;
        let other = if one == user.as_str() { other } else { one };
        UserId::new(other).ok()
    }

    /// The row as it is without the increment of the lock, which a rollback undoes.
    pub(super) fn without_version_bump(self) -> Self {
        Self {
            members_version: self.members_version - 1,
            ..self
        }
    }

    /// A change of members at the version of this row, which concerns no user yet.
    pub(super) fn membership_change(&self) -> MembershipChange {
        MembershipChange {
            conversation: self.id.clone(),
            members_version: self.members_version,
            last_seq: self.last_seq,
            deleted: false,
            member_count: self.member_count,
            users: Vec::new(),
        }
    }
}

/// Text in the column `pair` that identifies a direct conversation of two users.
pub(crate) fn direct_pair(one: &UserId, other: &UserId) -> String {
    let (first, second) = (one.min(other), one.max(other));
    format!("{first} {second}")
}

/// A statement that selects or returns a `ConversationRow`.
macro_rules! with_columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " id, kind, title, pair, open, history, priority, created_by, created_at, last_seq, last_at, rev,
                members_version, member_count, version ",
            $after
        )
    };
}

const SELECT_CONVERSATION: &str = with_columns!("SELECT", "FROM conversations WHERE id = $1");
const SELECT_DIRECT: &str = with_columns!("SELECT", "FROM conversations WHERE pair = $1");
const SELECT_BY_IDEMPOTENCY_KEY: &str = with_columns!(
    "SELECT",
    "FROM conversations WHERE created_by = $1 AND idempotency_key = $2"
);
const INSERT_CONVERSATION: &str = with_columns!(
    "INSERT INTO conversations (id, kind, title, pair, open, history, priority, created_by, created_at, idempotency_key,
        last_at, members_version, member_count)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9, 1, $11) ON CONFLICT DO NOTHING RETURNING",
    ""
);
const BUMP_MEMBERS_VERSION: &str = with_columns!(
    "UPDATE conversations SET members_version = members_version + 1 WHERE id = $1 RETURNING",
    ""
);
const ADJUST_MEMBER_COUNT: &str = with_columns!(
    "UPDATE conversations SET member_count = member_count + $2 WHERE id = $1 RETURNING",
    ""
);
const UPDATE_CONVERSATION_FIELDS: &str = with_columns!(
    "UPDATE conversations SET title = COALESCE($2, title), open = COALESCE($3, open),
        history = COALESCE($4, history), priority = COALESCE($5, priority), version = version + 1
    WHERE id = $1 RETURNING",
    ""
);
const DELETE_MEMBERS: &str = "DELETE FROM members WHERE conversation_id = $1";
const DELETE: &str = "DELETE FROM conversations WHERE id = $1";
const INSERT_DELETED_ID: &str =
    "INSERT INTO deleted_conversations (id, deleted_at) VALUES ($1, $2)";
const COUNT_DELETED_ID: &str = "SELECT COUNT(*) FROM deleted_conversations WHERE id = $1";

/// Reads a conversation.
pub(super) async fn find(
    database: &Database,
    id: &ConversationId,
) -> Result<Option<ConversationRow>> {
    let row = for_backend!(database.reader(), pool => sqlx::query_as(SELECT_CONVERSATION).bind(id.as_str()).fetch_optional(pool).await);
    Ok(row?)
}

/// Reads the direct conversation of a pair.
pub(super) async fn find_direct(
    tx: &mut WriteTransaction,
    pair: &str,
) -> Result<Option<ConversationRow>> {
    Ok(
        for_backend!(tx.connection(), c => sqlx::query_as(SELECT_DIRECT).bind(pair).fetch_optional(c).await)?,
    )
}

/// Reads the conversation that a user created with an idempotency key.
pub(super) async fn find_by_idempotency_key(
    tx: &mut WriteTransaction,
    creator: &str,
    key: &str,
) -> Result<Option<ConversationRow>> {
    let row = for_backend!(tx.connection(), c => sqlx::query_as(SELECT_BY_IDEMPOTENCY_KEY).bind(creator).bind(key).fetch_optional(c).await);
    Ok(row?)
}

/// Inserts a conversation; `None` if its id, pair or idempotency key is taken.
pub(super) async fn insert(
    tx: &mut WriteTransaction,
    draft: &ConversationDraft,
    now: Timestamp,
) -> Result<Option<ConversationRow>> {
    let fields = &draft.fields;
    let row = for_backend!(tx.connection(), c => sqlx::query_as(INSERT_CONVERSATION)
        .bind(draft.id.as_str())
        .bind(draft.kind.name())
        .bind(fields.title.as_deref())
        .bind(draft.direct_pair.as_deref())
        .bind(fields.open.map(i64::from))
        .bind(fields.history.map(HistoryVisibility::name))
        .bind(fields.priority.map(SupportPriority::name))
        .bind(draft.creator.as_ref().map_or("", UserId::as_str))
        .bind(to_db_integer(now.as_millis()))
        .bind(draft.idempotency_key.as_deref())
        .bind(to_db_integer(draft.members.len() as u64))
        .fetch_optional(c)
        .await);
    Ok(row?)
}

/// Locks a conversation by incrementing `members_version`; `None` if it does not exist.
pub(super) async fn lock_and_bump_members_version(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Option<ConversationRow>> {
    let row = for_backend!(tx.connection(), c => sqlx::query_as(BUMP_MEMBERS_VERSION).bind(id.as_str()).fetch_optional(c).await);
    Ok(row?)
}

/// Changes the member count of a locked conversation.
pub(super) async fn adjust_member_count(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    delta: i64,
) -> Result<ConversationRow> {
    let row = for_backend!(tx.connection(), c => sqlx::query_as(ADJUST_MEMBER_COUNT).bind(id.as_str()).bind(delta).fetch_one(c).await);
    Ok(row?)
}

/// Updates the fields of a patch; `None` if the conversation does not exist.
pub(super) async fn update_fields(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    patch: &ConversationPatch,
) -> Result<Option<ConversationRow>> {
    let row = for_backend!(tx.connection(), c => sqlx::query_as(UPDATE_CONVERSATION_FIELDS)
        .bind(id.as_str())
        .bind(patch.title.as_deref())
        .bind(patch.open.map(i64::from))
        .bind(patch.history.map(HistoryVisibility::name))
        .bind(patch.priority.map(SupportPriority::name))
        .fetch_optional(c)
        .await);
    Ok(row?)
}

/// Deletes a conversation and its members, and records its id: the id is never used again, and the messages are removed
/// later.
pub(super) async fn delete(
    tx: &mut WriteTransaction,
    id: &ConversationId,
    now: Timestamp,
) -> Result<()> {
    for_backend!(tx.connection(), c => {
        sqlx::query(DELETE_MEMBERS).bind(id.as_str()).execute(&mut *c).await?;
        sqlx::query(DELETE).bind(id.as_str()).execute(&mut *c).await?;
        sqlx::query(INSERT_DELETED_ID).bind(id.as_str()).bind(to_db_integer(now.as_millis())).execute(&mut *c).await?;
    });
    Ok(())
}

/// Whether the id belongs to a deleted conversation.
pub(super) async fn is_deleted_id(tx: &mut WriteTransaction, id: &ConversationId) -> Result<bool> {
    let count: i64 = for_backend!(tx.connection(), c => sqlx::query_scalar(COUNT_DELETED_ID).bind(id.as_str()).fetch_one(c).await)?;
    Ok(count > 0)
}
