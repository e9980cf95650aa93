//! Rows of members.
//!
//! Invariant: the functions that insert, change or delete rows are called with the conversation's row locked.

use sqlx::FromRow;

use super::enums::MemberRole;
use super::rows::ConversationRow;
use crate::api::error::Result;
use crate::context::Timestamp;
use crate::database::{Database, WriteTransaction, on, to_db_integer};
use crate::ids::{ConversationId, UserId};

/// Row of a member.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct MemberRow {
    /// Id of the user.
    #[sqlx(try_from = "String")]
    pub user_id: UserId,
    /// Role of the member.
    #[sqlx(try_from = "String")]
    pub role: MemberRole,
    /// Time of the join in ms.
    #[sqlx(try_from = "i64")]
    pub joined_at: u64,
    /// `last_seq` of the conversation at the join.
    #[sqlx(try_from = "i64")]
    pub joined_seq: u64,
    /// `members_version` of the conversation after the join.
    #[sqlx(try_from = "i64")]
    pub joined_version: u64,
    /// `seq` of the last message that was delivered to the member.
    #[sqlx(try_from = "i64")]
    pub delivered_seq: u64,
    /// `seq` of the last message that the member has read.
    #[sqlx(try_from = "i64")]
    pub read_seq: u64,
    /// Messages up to this `seq` do not count as unread.
    #[sqlx(try_from = "i64")]
    pub badge_seq: u64,
    /// Number of the member's own messages after `badge_seq`.
    #[sqlx(try_from = "i64")]
    pub own_after: u64,
    /// Increases with every change of badge or mute.
    #[sqlx(try_from = "i64")]
    pub position_version: u64,
    /// End of the mute in ms; 0 if not muted.
    #[sqlx(try_from = "i64")]
    pub muted_until: u64,
}

/// Statement that selects members, with the rest of its WHERE clause.
macro_rules! members {
    ($rest:literal) => {
        concat!(
            "SELECT user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq, own_after,
                position_version, muted_until
            FROM members WHERE conversation_id = $1 ",
            $rest
        )
    };
}

const SELECT_MEMBER: &str = members!("AND user_id = $2");
const SELECT_MEMBER_PAGE: &str = members!("AND user_id > $2 ORDER BY user_id LIMIT $3");
const SELECT_USER_IDS: &str =
    "SELECT user_id FROM members WHERE conversation_id = $1 ORDER BY user_id";
/// Next owner if no owner is left: the longest-standing admin, otherwise the longest-standing member.
const SELECT_NEXT_OWNER: &str = members!(
    "AND NOT EXISTS (SELECT 1 FROM members WHERE conversation_id = $1 AND role = 'owner')
    ORDER BY CASE role WHEN 'admin' THEN 0 ELSE 1 END, joined_version, joined_at, user_id LIMIT 1"
);
const INSERT_MEMBERS: &str = "
    INSERT INTO members
        (conversation_id, user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq) ";
const SET_ROLE: &str = "UPDATE members SET role = $3 WHERE conversation_id = $1 AND user_id = $2";
const DELETE_MEMBER: &str = "DELETE FROM members WHERE conversation_id = $1 AND user_id = $2";

/// Reads a member.
pub(super) async fn find(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<Option<MemberRow>> {
    Ok(on!(database.reader(), pool => sqlx::query_as(SELECT_MEMBER)
        .bind(conversation.as_str())
        .bind(user.as_str())
        .fetch_optional(pool)
        .await)?)
}

/// Reads a member of a locked conversation.
pub(super) async fn find_in(
    tx: &mut WriteTransaction,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<Option<MemberRow>> {
    Ok(on!(tx.connection(), c => sqlx::query_as(SELECT_MEMBER)
        .bind(conversation.as_str())
        .bind(user.as_str())
        .fetch_optional(c)
        .await)?)
}

/// Reads members ordered by id, starting after `after`.
pub(super) async fn find_page(
    database: &Database,
    conversation: &ConversationId,
    after: &str,
    limit: u64,
) -> Result<Vec<MemberRow>> {
    Ok(
        on!(database.reader(), pool => sqlx::query_as(SELECT_MEMBER_PAGE)
        .bind(conversation.as_str())
        .bind(after)
        .bind(to_db_integer(limit))
        .fetch_all(pool)
        .await)?,
    )
}

/// Reads the ids of all members of a locked conversation.
pub(super) async fn find_user_ids(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Vec<UserId>> {
    let users: Vec<String> = on!(tx.connection(), c => sqlx::query_scalar(SELECT_USER_IDS).bind(id.as_str()).fetch_all(c).await)?;
    let users = users.into_iter().map(UserId::new);
    Ok(users.collect::<std::result::Result<_, _>>()?)
}

/// Reads the member who must become owner of a locked conversation; `None` if an owner is left.
pub(super) async fn find_next_owner(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Option<MemberRow>> {
    Ok(
        on!(tx.connection(), c => sqlx::query_as(SELECT_NEXT_OWNER).bind(id.as_str()).fetch_optional(c).await)?,
    )
}

/// Inserts members into a locked conversation.
pub(super) async fn insert(
    tx: &mut WriteTransaction,
    head: &ConversationRow,
    members: &[(UserId, MemberRole)],
    now: Timestamp,
) -> Result<()> {
    if members.is_empty() {
        return Ok(());
    }
    let (seq, version) = (
        to_db_integer(head.last_seq),
        to_db_integer(head.members_version),
    );
    on!(tx.connection(), c => {
        let mut rows = sqlx::QueryBuilder::new(INSERT_MEMBERS);
        rows.push_values(members, |mut row, (user, role)| {
            row.push_bind(head.id.as_str());
            row.push_bind(user.as_str());
            row.push_bind(role.word());
            row.push_bind(to_db_integer(now.as_millis()));
            row.push_bind(seq);
            row.push_bind(version);
            // Earlier messages count as delivered and read, and not as unread.
            row.push_bind(seq);
            row.push_bind(seq);
            row.push_bind(seq);
        });
        rows.build().execute(c).await?;
    });
    Ok(())
}

/// Changes the role of a member.
pub(super) async fn set_role(
    tx: &mut WriteTransaction,
    conversation: &ConversationId,
    user: &UserId,
    role: MemberRole,
) -> Result<()> {
    on!(tx.connection(), c => sqlx::query(SET_ROLE)
        .bind(conversation.as_str())
        .bind(user.as_str())
        .bind(role.word())
        .execute(c)
        .await
        .map(drop))?;
    Ok(())
}

/// Deletes a member.
pub(super) async fn delete(
    tx: &mut WriteTransaction,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<()> {
    on!(tx.connection(), c => sqlx::query(DELETE_MEMBER)
        .bind(conversation.as_str())
        .bind(user.as_str())
        .execute(c)
        .await
        .map(drop))?;
    Ok(())
}
