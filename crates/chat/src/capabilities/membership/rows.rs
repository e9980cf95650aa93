//! Rows that the membership caches are filled from.

use crate::api::error::Result;
use crate::database::{Database, on};
use crate::ids::{ConversationId, UserId};

const COUNT_MEMBER: &str =
    "SELECT COUNT(*) FROM members WHERE conversation_id = $1 AND user_id = $2";

const SELECT_PARTICIPANTS: &str = "
    SELECT c.members_version, m.user_id
    FROM conversations c LEFT JOIN members m ON m.conversation_id = c.id
    WHERE c.id = $1 ORDER BY m.user_id LIMIT $2";

/// Users per statement.
pub(super) const USERS_PER_STATEMENT: usize = 32;

const SELECT_MEMBERS_AMONG: &str = "
    SELECT user_id FROM members WHERE conversation_id = $1 AND user_id IN (
        $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
        $26, $27, $28, $29, $30, $31, $32, $33)";

const SELECT_USER_ID_PAGE: &str = "
    SELECT user_id FROM members WHERE conversation_id = $1 AND user_id > $2 ORDER BY user_id LIMIT $3";

/// Reads which of up to [`USERS_PER_STATEMENT`] users are members.
pub(super) async fn find_members_among(
    database: &Database,
    conversation: &ConversationId,
    users: &[UserId],
) -> Result<Vec<UserId>> {
    debug_assert!(users.len() <= USERS_PER_STATEMENT);
    let Some(first) = users.first() else {
        return Ok(Vec::new());
    };
    let found: Vec<String> = on!(database.reader(), pool => {
        let mut query = sqlx::query_scalar(SELECT_MEMBERS_AMONG).bind(conversation.as_str());
        for nth in 0..USERS_PER_STATEMENT {
            query = query.bind(users.get(nth).unwrap_or(first).as_str());
        }
        query.fetch_all(pool).await?
    });
    let users = found.into_iter().map(UserId::new);
    Ok(users.collect::<std::result::Result<_, _>>()?)
}

/// Reads a page of user ids, ordered by id, starting after `after`.
pub(super) async fn find_user_id_page(
    database: &Database,
    conversation: &ConversationId,
    after: &str,
    limit: usize,
) -> Result<Vec<UserId>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found: Vec<String> = on!(database.reader(), pool => {
        let query = sqlx::query_scalar(SELECT_USER_ID_PAGE).bind(conversation.as_str());
        query.bind(after).bind(limit).fetch_all(pool).await?
    });
    let users = found.into_iter().map(UserId::new);
    Ok(users.collect::<std::result::Result<_, _>>()?)
}

/// Whether the member has a row.
pub(super) async fn is_member(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<bool> {
    let count: i64 = on!(database.reader(), pool => sqlx::query_scalar(COUNT_MEMBER)
        .bind(conversation.as_str())
        .bind(user.as_str())
        .fetch_one(pool)
        .await)?;
    Ok(count > 0)
}

/// Reads the `members_version` and the members of that version, up to `limit`; `None` if the conversation does not
/// exist.
pub(super) async fn find_participants(
    database: &Database,
    conversation: &ConversationId,
    most: usize,
) -> Result<Option<(u64, Vec<UserId>)>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows: Vec<(i64, Option<String>)> = on!(database.reader(), pool => sqlx::query_as(SELECT_PARTICIPANTS)
        .bind(conversation.as_str())
        .bind(most)
        .fetch_all(pool)
        .await)?;
    let Some(&(version, _)) = rows.first() else {
        return Ok(None);
    };
    let users = rows
        .into_iter()
        .filter_map(|(_, user)| user)
        .map(UserId::new);
    let users = users.collect::<std::result::Result<_, _>>()?;
    Ok(Some((version.unsigned_abs(), users)))
}
