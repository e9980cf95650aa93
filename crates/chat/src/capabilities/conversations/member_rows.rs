//! Rows of members.
//!
//! Invariant: the functions that insert, change or delete rows are called with the conversation's row locked.

use sqlx::FromRow;

use super::model::MemberRole;
use super::rows::ConversationRow;
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, WriteTransaction, for_backend, to_db_integer};
use crate::ids::{ConversationId, UserId};

/// Row of a member.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub(crate) struct MemberRow {
    /// Id of the user.
    #[sqlx(try_from = "String")]
    pub(crate) user_id: UserId,
    /// Role of the member.
    #[sqlx(try_from = "String")]
    pub(crate) role: MemberRole,
    /// Time of the join in ms.
    #[sqlx(try_from = "i64")]
    pub(crate) joined_at: u64,
    /// `last_seq` of the conversation at the join.
    #[sqlx(try_from = "i64")]
    pub(crate) joined_seq: u64,
    /// `members_version` of the conversation after the join.
    #[sqlx(try_from = "i64")]
    pub(crate) joined_version: u64,
    /// `seq` of the last message that was delivered to the member.
    #[sqlx(try_from = "i64")]
    pub(crate) delivered_seq: u64,
    /// `seq` of the last message that the member has read.
    #[sqlx(try_from = "i64")]
    pub(crate) read_seq: u64,
    /// Messages up to this `seq` do not count as unread.
    #[sqlx(try_from = "i64")]
    pub(crate) badge_seq: u64,
    /// Number of the member's own messages after `badge_seq`.
    #[sqlx(try_from = "i64")]
    pub(crate) own_after: u64,
    /// Increases with every change of badge or mute.
    #[sqlx(try_from = "i64")]
    pub(crate) position_version: u64,
    /// End of the mute in ms; 0 if not muted.
    #[sqlx(try_from = "i64")]
    pub(crate) muted_until: u64,
}

/// Statement that selects members, with the rest of its WHERE clause.
macro_rules! select_members {
    ($rest:literal) => {
        concat!(
            "SELECT user_id, role, joined_at, joined_seq, joined_version, delivered_seq, read_seq, badge_seq, own_after,
                position_version, muted_until
            FROM members WHERE conversation_id = $1 ",
            $rest
        )
    };
}

const SELECT_MEMBER: &str = select_members!("AND user_id = $2");
const SELECT_MEMBER_PAGE: &str = select_members!("AND user_id > $2 ORDER BY user_id LIMIT $3");
/// Next owner if no owner is left: the longest-standing admin, otherwise the longest-standing member.
const SELECT_NEXT_OWNER: &str = select_members!(
    "AND NOT EXISTS (SELECT 1 FROM members WHERE conversation_id = $1 AND role = 'owner')
    ORDER BY CASE role WHEN 'admin' THEN 0 ELSE 1 END, joined_version, joined_at, user_id LIMIT 1"
);
const SELECT_USER_IDS: &str =
    "SELECT user_id FROM members WHERE conversation_id = $1 ORDER BY user_id";
const SELECT_USER_ID_PAGE: &str = "SELECT user_id FROM members WHERE conversation_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3";
const SELECT_MEMBERS_AMONG: &str = "
    SELECT user_id FROM members WHERE conversation_id = $1 AND user_id IN (
        $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
        $26, $27, $28, $29, $30, $31, $32, $33)";
/// Number of users in that statement.
const USERS_PER_STATEMENT: usize = 32;
const SELECT_PARTICIPANTS: &str = "
    SELECT c.members_version, m.user_id
    FROM conversations c LEFT JOIN members m ON m.conversation_id = c.id
    WHERE c.id = $1 ORDER BY m.user_id LIMIT $2";
/// One row if the conversation exists: 1 for a member, 0 for any other user.
const COUNT_MEMBER: &str = "
    SELECT (SELECT COUNT(*) FROM members WHERE conversation_id = $1 AND user_id = $2)
    FROM conversations WHERE id = $1";
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
    let (id, user) = (conversation.as_str(), user.as_str());
    let row = for_backend!(database.reader(), pool => sqlx::query_as(SELECT_MEMBER).bind(id).bind(user).fetch_optional(pool).await);
    Ok(row?)
}

/// Reads a member of a locked conversation.
pub(super) async fn find_in(
    tx: &mut WriteTransaction,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<Option<MemberRow>> {
    let (id, user) = (conversation.as_str(), user.as_str());
    let row = for_backend!(tx.connection(), c => sqlx::query_as(SELECT_MEMBER).bind(id).bind(user).fetch_optional(c).await);
    Ok(row?)
}

/// Whether the user has a row; `None` if the conversation does not exist.
pub(super) async fn is_member(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<Option<bool>> {
    let (id, user) = (conversation.as_str(), user.as_str());
    let count: Option<i64> = for_backend!(database.reader(), pool => sqlx::query_scalar(COUNT_MEMBER).bind(id).bind(user).fetch_optional(pool).await)?;
    Ok(count.map(|count| count > 0))
}

/// Reads members ordered by id, starting after `after`.
pub(super) async fn find_page(
    database: &Database,
    conversation: &ConversationId,
    after: &str,
    limit: u64,
) -> Result<Vec<MemberRow>> {
    let (id, limit) = (conversation.as_str(), to_db_integer(limit));
    let rows = for_backend!(database.reader(), pool => sqlx::query_as(SELECT_MEMBER_PAGE).bind(id).bind(after).bind(limit).fetch_all(pool).await);
    Ok(rows?)
}

/// Reads user ids of members ordered by id, starting after `after`.
pub(super) async fn find_user_id_page(
    database: &Database,
    conversation: &ConversationId,
    after: &str,
    limit: u64,
) -> Result<Vec<UserId>> {
    let (id, limit) = (conversation.as_str(), to_db_integer(limit));
    parse_user_ids(
        for_backend!(database.reader(), pool => sqlx::query_scalar(SELECT_USER_ID_PAGE).bind(id).bind(after).bind(limit).fetch_all(pool).await)?,
    )
}

/// Reads the ids of all members of a locked conversation.
pub(super) async fn find_user_ids(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Vec<UserId>> {
    parse_user_ids(
        for_backend!(tx.connection(), c => sqlx::query_scalar(SELECT_USER_IDS).bind(id.as_str()).fetch_all(c).await)?,
    )
}

fn parse_user_ids(ids: Vec<String>) -> Result<Vec<UserId>> {
    let users = ids.into_iter().map(UserId::new);
    Ok(users.collect::<std::result::Result<_, _>>()?)
}

/// Reads the `members_version` and the members of that version, up to `limit`; `None` if the conversation does not
/// exist.
pub(super) async fn find_participants(
    database: &Database,
    conversation: &ConversationId,
    limit: u64,
) -> Result<Option<(u64, Vec<UserId>)>> {
    let (id, limit) = (conversation.as_str(), to_db_integer(limit));
    let rows: Vec<(i64, Option<String>)> = for_backend!(database.reader(), pool => sqlx::query_as(SELECT_PARTICIPANTS).bind(id).bind(limit).fetch_all(pool).await)?;
    let Some(&(version, _)) = rows.first() else {
        return Ok(None);
    };
    let users = parse_user_ids(rows.into_iter().filter_map(|(_, user)| user).collect())?;
    Ok(Some((version.unsigned_abs(), users)))
}

/// Returns which of these users are not members.
pub(super) async fn find_non_members(
    database: &Database,
    conversation: &ConversationId,
    users: &[UserId],
) -> Result<Vec<UserId>> {
    let mut non_members = Vec::new();
    for users in users.chunks(USERS_PER_STATEMENT) {
        let members: Vec<String> = for_backend!(database.reader(), pool => {
            let mut query = sqlx::query_scalar(SELECT_MEMBERS_AMONG).bind(conversation.as_str());
            for nth in 0..USERS_PER_STATEMENT {
                // The last chunk repeats its first user in the unused places.
                query = query.bind(users.get(nth).unwrap_or(&users[0]).as_str());
            }
            query.fetch_all(pool).await?
        });
        let others = users
            .iter()
            .filter(|user| !members.iter().any(|it| it == user.as_str()));
        non_members.extend(others.cloned());
    }
    Ok(non_members)
}

/// Reads the member who must become owner of a locked conversation; `None` if an owner is left.
pub(super) async fn find_next_owner(
    tx: &mut WriteTransaction,
    id: &ConversationId,
) -> Result<Option<MemberRow>> {
    let row = for_backend!(tx.connection(), c => sqlx::query_as(SELECT_NEXT_OWNER).bind(id.as_str()).fetch_optional(c).await);
    Ok(row?)
}

/// Inserts members into a locked conversation.
pub(super) async fn insert(
    tx: &mut WriteTransaction,
    conversation: &ConversationRow,
    members: &[(UserId, MemberRole)],
    now: Timestamp,
) -> Result<()> {
    let seq = to_db_integer(conversation.last_seq);
    let version = to_db_integer(conversation.members_version);
    for_backend!(tx.connection(), c => {
        let mut rows = sqlx::QueryBuilder::new(INSERT_MEMBERS);
        rows.push_values(members, |mut row, (user, role)| {
            row.push_bind(conversation.id.as_str());
            row.push_bind(user.as_str());
            row.push_bind(role.name());
            row.push_bind(to_db_integer(now.as_millis()));
            row.push_bind(seq);
            row.push_bind(version);
            // Earlier messages are not unread, but a receipt exists only if a client of the member sent it.
            row.push_bind(0_i64);
            row.push_bind(0_i64);
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
    let (id, user) = (conversation.as_str(), user.as_str());
    for_backend!(tx.connection(), c => sqlx::query(SET_ROLE).bind(id).bind(user).bind(role.name()).execute(c).await.map(drop))?;
    Ok(())
}

/// Deletes a member.
pub(super) async fn delete(
    tx: &mut WriteTransaction,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<()> {
    let (id, user) = (conversation.as_str(), user.as_str());
    for_backend!(tx.connection(), c => sqlx::query(DELETE_MEMBER).bind(id).bind(user).execute(c).await.map(drop))?;
    Ok(())
}
