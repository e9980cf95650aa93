//! The rows of members.
//!
//! Always true: whoever changes them has locked the conversation's row before.

use sqlx::FromRow;

use super::rows::ConversationRow;
use super::words::MemberRole;
use crate::context::Timestamp;
use crate::database::{Database, WriteTransaction, on, to_db_integer};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

/// A member of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct MemberRow {
    /// Who.
    #[sqlx(try_from = "String")]
    pub user_id: UserId,
    /// What they may do.
    #[sqlx(try_from = "String")]
    pub role: MemberRole,
    /// Since when, in ms.
    #[sqlx(try_from = "i64")]
    pub joined_at: u64,
    /// The newest message then.
    #[sqlx(try_from = "i64")]
    pub joined_seq: u64,
    /// The conversation's `members_version` after it.
    #[sqlx(try_from = "i64")]
    pub joined_version: u64,
    /// Up to where they have got messages.
    #[sqlx(try_from = "i64")]
    pub delivered_seq: u64,
    /// Up to where they have read.
    #[sqlx(try_from = "i64")]
    pub read_seq: u64,
    /// Up to where messages do not count as unread.
    #[sqlx(try_from = "i64")]
    pub badge_seq: u64,
    /// Their own messages after that.
    #[sqlx(try_from = "i64")]
    pub own_after: u64,
    /// Rises with every change of badge or mute.
    #[sqlx(try_from = "i64")]
    pub position_version: u64,
    /// Until when the conversation is muted, in ms; 0 if it is not.
    #[sqlx(try_from = "i64")]
    pub muted_until: u64,
}

/// The columns of a member, and what follows.
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
/// Who becomes owner when no owner is left: the longest-standing admin, else the longest-standing member.
const SELECT_NEXT_OWNER: &str = members!(
    "AND NOT EXISTS (SELECT 1 FROM members WHERE conversation_id = $1 AND role = 'owner')
    ORDER BY CASE role WHEN 'admin' THEN 0 ELSE 1 END, joined_version, joined_at, user_id LIMIT 1"
);
const INSERT_MEMBERS: &str = "
    INSERT INTO members
        (conversation_id, user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq) ";
const SET_ROLE: &str = "UPDATE members SET role = $3 WHERE conversation_id = $1 AND user_id = $2";
const DELETE_MEMBER: &str = "DELETE FROM members WHERE conversation_id = $1 AND user_id = $2";

/// A member.
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

/// A member of a locked conversation.
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

/// Members by id, those after `after`.
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

/// All members of a locked conversation.
pub(super) async fn find_user_ids(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Vec<UserId>> {
    let users: Vec<String> = on!(tx.connection(), c => sqlx::query_scalar(SELECT_USER_IDS).bind(id.as_str()).fetch_all(c).await)?;
    let users = users.into_iter().map(UserId::new);
    Ok(users.collect::<std::result::Result<_, _>>()?)
}

/// Who has to become owner of a locked conversation, if it has none.
pub(super) async fn find_next_owner(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Option<MemberRow>> {
    Ok(
        on!(tx.connection(), c => sqlx::query_as(SELECT_NEXT_OWNER).bind(id.as_str()).fetch_optional(c).await)?,
    )
}

/// Adds members to a locked conversation, all at its end.
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
            // A new member starts at the end: nothing before counts as not delivered, not read, or unread.
            row.push_bind(seq);
            row.push_bind(seq);
            row.push_bind(seq);
        });
        rows.build().execute(c).await?;
    });
    Ok(())
}

/// Gives a member another role.
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

/// Removes a member.
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
