//! Reads memberships of many users from the rows.

use std::collections::HashSet;

use super::rows;
use crate::api::error::Result;
use crate::database::Database;
use crate::ids::{ConversationId, UserId};

/// Members per statement.
const MEMBER_PAGE_SIZE: usize = 1_000;

/// Returns which of these users are not members.
pub(crate) async fn filter_non_members(
    database: &Database,
    conversation: &ConversationId,
    users: &[UserId],
) -> Result<Vec<UserId>> {
    let mut gone = Vec::new();
    for some in users.chunks(rows::USERS_PER_STATEMENT) {
        let members = rows::find_members_among(database, conversation, some).await?;
        let others = some.iter().filter(|user| !members.contains(user));
        gone.extend(others.cloned());
    }
    Ok(gone)
}

/// Returns the members, up to `max_members`.
pub(crate) async fn all(
    database: &Database,
    conversation: &ConversationId,
    most: usize,
) -> Result<HashSet<UserId>> {
    let mut members = HashSet::new();
    let mut after = String::new();
    while members.len() < most {
        let page =
            rows::find_user_id_page(database, conversation, &after, MEMBER_PAGE_SIZE).await?;
        let Some(last) = page.last() else { break };
        after = last.as_str().to_owned();
        let is_last = page.len() < MEMBER_PAGE_SIZE;
        members.extend(page);
        if is_last {
            break;
        }
    }
    Ok(members)
}
