//! The rows of conversations and members.
//!
//! Always true: whoever changes the members of a conversation raises its `members_version` first, by which its row is locked
//! until they are done; whoever finds nothing to change undoes that.

use sqlx::FromRow;

use super::ops::{New, Patch};
use super::words::{ConversationKind, History, Priority};
use crate::context::Moment;
use crate::database::{Database, Transaction, number, on};
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
pub(super) fn pair(one: &UserId, other: &UserId) -> String {
    let (first, second) = (one.min(other), one.max(other));
    format!("{first} {second}")
}

/// The columns of a conversation.
macro_rules! columns {
    () => {
        "id, kind, title, pair, open, history, priority, created_by, created_at, last_seq, last_at, rev, members_version,
            member_count"
    };
}

const HEAD: &str = concat!("SELECT ", columns!(), " FROM conversations WHERE id = $1");
const BY_PAIR: &str = concat!("SELECT ", columns!(), " FROM conversations WHERE pair = $1");
const BY_KEY: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM conversations WHERE created_by = $1 AND idempotency_key = $2"
);
const CREATE: &str = concat!(
    "INSERT INTO conversations (id, kind, title, pair, open, history, priority, created_by, created_at, idempotency_key,
        last_at, members_version, member_count)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9, 1, $11) ON CONFLICT DO NOTHING RETURNING ",
    columns!()
);
const LOCK: &str = concat!(
    "UPDATE conversations SET members_version = members_version + 1 WHERE id = $1 RETURNING ",
    columns!()
);
const COUNT: &str = concat!(
    "UPDATE conversations SET member_count = member_count + $2 WHERE id = $1 RETURNING ",
    columns!()
);
const CHANGE: &str = concat!(
    "UPDATE conversations SET title = COALESCE($2, title), open = COALESCE($3, open),
        history = COALESCE($4, history), priority = COALESCE($5, priority)
    WHERE id = $1 RETURNING ",
    columns!()
);
const DELETE: &str = "DELETE FROM conversations WHERE id = $1";
const BURY: &str = "INSERT INTO deleted_conversations (id, deleted_at) VALUES ($1, $2)";
const BURIED: &str = "SELECT COUNT(*) FROM deleted_conversations WHERE id = $1";

/// A conversation.
pub(super) async fn head(
    database: &Database,
    id: &ConversationId,
) -> Result<Option<ConversationRow>> {
    Ok(
        on!(database.reader(), pool => sqlx::query_as(HEAD).bind(id.as_str()).fetch_optional(pool).await)?,
    )
}

/// The direct conversation of a pair.
pub(super) async fn by_pair(tx: &mut Transaction, pair: &str) -> Result<Option<ConversationRow>> {
    Ok(on!(tx.connection(), c => sqlx::query_as(BY_PAIR).bind(pair).fetch_optional(c).await)?)
}

/// What somebody created under a key.
pub(super) async fn by_key(
    tx: &mut Transaction,
    creator: &str,
    key: &str,
) -> Result<Option<ConversationRow>> {
    Ok(on!(tx.connection(), c => sqlx::query_as(BY_KEY)
        .bind(creator)
        .bind(key)
        .fetch_optional(c)
        .await)?)
}

/// Creates a conversation of so many members; none if its id, pair or key is taken.
pub(super) async fn create(
    tx: &mut Transaction,
    id: &ConversationId,
    new: &New,
    members: usize,
    now: Moment,
) -> Result<Option<ConversationRow>> {
    Ok(on!(tx.connection(), c => sqlx::query_as(CREATE)
        .bind(id.as_str())
        .bind(new.kind.word())
        .bind(new.title.as_deref())
        .bind(new.pair.as_deref())
        .bind(i64::from(new.open))
        .bind(new.history.word())
        .bind(new.priority.map(Priority::word))
        .bind(new.creator.as_ref().map_or("", UserId::as_str))
        .bind(number(now.ms()))
        .bind(new.key.as_deref())
        .bind(i64::try_from(members).unwrap_or(i64::MAX))
        .fetch_optional(c)
        .await)?)
}

/// Locks a conversation and raises its version; none if there is no such one.
pub(super) async fn lock(
    tx: &mut Transaction,
    id: &ConversationId,
) -> Result<Option<ConversationRow>> {
    Ok(on!(tx.connection(), c => sqlx::query_as(LOCK).bind(id.as_str()).fetch_optional(c).await)?)
}

/// Counts so many members more, or less, of a locked conversation.
pub(super) async fn count(
    tx: &mut Transaction,
    id: &ConversationId,
    more: i64,
) -> Result<ConversationRow> {
    Ok(on!(tx.connection(), c => sqlx::query_as(COUNT)
        .bind(id.as_str())
        .bind(more)
        .fetch_one(c)
        .await)?)
}

/// Changes a conversation itself; none if there is no such one.
pub(super) async fn change(
    tx: &mut Transaction,
    id: &ConversationId,
    patch: &Patch,
) -> Result<Option<ConversationRow>> {
    Ok(on!(tx.connection(), c => sqlx::query_as(CHANGE)
        .bind(id.as_str())
        .bind(patch.title.as_deref())
        .bind(patch.open.map(i64::from))
        .bind(patch.history.map(History::word))
        .bind(patch.priority.map(Priority::word))
        .fetch_optional(c)
        .await)?)
}

/// Deletes a conversation with all that belongs to it. Its id is used up.
pub(super) async fn delete(tx: &mut Transaction, id: &ConversationId, now: Moment) -> Result<()> {
    on!(tx.connection(), c => {
        sqlx::query(DELETE).bind(id.as_str()).execute(&mut *c).await?;
        sqlx::query(BURY).bind(id.as_str()).bind(number(now.ms())).execute(&mut *c).await?;
    });
    Ok(())
}

/// Whether there was a conversation of this id.
pub(super) async fn is_buried(tx: &mut Transaction, id: &ConversationId) -> Result<bool> {
    let count: i64 =
        on!(tx.connection(), c => sqlx::query_scalar(BURIED).bind(id.as_str()).fetch_one(c).await)?;
    Ok(count > 0)
}
