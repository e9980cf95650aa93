//! The rows behind the caches.

use crate::database::{Database, on};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

const IS_MEMBER: &str = "SELECT COUNT(*) FROM members WHERE conversation_id = $1 AND user_id = $2";

const PARTICIPANTS: &str = "
    SELECT c.members_version, m.user_id
    FROM conversations c LEFT JOIN members m ON m.conversation_id = c.id
    WHERE c.id = $1 ORDER BY m.user_id LIMIT $2";

/// Whether there is a row.
pub(super) async fn is_member(
    database: &Database,
    conversation: &ConversationId,
    user: &UserId,
) -> Result<bool> {
    let count: i64 = on!(database.reader(), pool => sqlx::query_scalar(IS_MEMBER)
        .bind(conversation.as_str())
        .bind(user.as_str())
        .fetch_one(pool)
        .await)?;
    Ok(count > 0)
}

/// The `members_version` and the members that belong to it, up to `most`; none if there is no conversation.
pub(super) async fn participants(
    database: &Database,
    conversation: &ConversationId,
    most: usize,
) -> Result<Option<(u64, Vec<UserId>)>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows: Vec<(i64, Option<String>)> = on!(database.reader(), pool => sqlx::query_as(PARTICIPANTS)
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
