//! Who is a member, asked of the rows for many at once.

use std::collections::HashSet;

use super::rows;
use crate::database::Database;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

/// Members that are read at a time.
const PAGE: usize = 1_000;

/// Those of these users who are no members.
pub(crate) async fn gone(
    database: &Database,
    conversation: &ConversationId,
    users: &[UserId],
) -> Result<Vec<UserId>> {
    let mut gone = Vec::new();
    for some in users.chunks(rows::MANY) {
        let members = rows::among(database, conversation, some).await?;
        let others = some.iter().filter(|user| !members.contains(user));
        gone.extend(others.cloned());
    }
    Ok(gone)
}

/// The members, up to `most`.
pub(crate) async fn all(
    database: &Database,
    conversation: &ConversationId,
    most: usize,
) -> Result<HashSet<UserId>> {
    let mut members = HashSet::new();
    let mut after = String::new();
    while members.len() < most {
        let page = rows::page(database, conversation, &after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.as_str().to_owned();
        let is_last = page.len() < PAGE;
        members.extend(page);
        if is_last {
            break;
        }
    }
    Ok(members)
}
