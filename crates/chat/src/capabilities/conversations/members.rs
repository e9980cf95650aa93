//! Reads members from the rows.

use std::collections::HashSet;

use super::Conversations;
use super::member_rows::{self, MemberRow};
use crate::api::error::Result;
use crate::api::pagination::{self, invalid_cursor};
use crate::ids::{ConversationId, UserId};

/// User ids per statement.
const USER_ID_PAGE_SIZE: u64 = 1_000;

impl Conversations {
    /// Reads a member; `None` if the user is not a member.
    pub(crate) async fn find_member(
        &self,
        conversation: &ConversationId,
        user: &UserId,
    ) -> Result<Option<MemberRow>> {
        member_rows::find(&self.database, conversation, user).await
    }

    /// Lists members ordered by id, with the cursor of the next page.
    pub(super) async fn list_members(
        &self,
        conversation: &ConversationId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<(Vec<MemberRow>, Option<String>)> {
        let after = match cursor {
            Some(cursor) => {
                let after = UserId::new(pagination::decode_cursor(cursor)?);
                after.map_err(|_| invalid_cursor())?.to_string()
            }
            None => String::new(),
        };
        let rows = member_rows::find_page(&self.database, conversation, &after, limit + 1);
        let mut members = rows.await?;
        let next_cursor =
            pagination::cut_page(&mut members, limit, |member| member.user_id.to_string());
        Ok((members, next_cursor))
    }

    /// Returns which of these users are not members.
    pub(crate) async fn filter_non_members(
        &self,
        conversation: &ConversationId,
        users: &[UserId],
    ) -> Result<Vec<UserId>> {
        member_rows::find_non_members(&self.database, conversation, users).await
    }

    /// Loads the ids of all members; of a conversation with more than `max_members`, the first ones by id.
    pub(crate) async fn load_members(
        &self,
        conversation: &ConversationId,
        max_members: usize,
    ) -> Result<HashSet<UserId>> {
        let mut members = HashSet::new();
        let mut after = String::new();
        loop {
            let (database, limit) = (&self.database, USER_ID_PAGE_SIZE);
            let page = member_rows::find_user_id_page(database, conversation, &after, limit);
            let page = page.await?;
            let is_last = (page.len() as u64) < USER_ID_PAGE_SIZE;
            if let Some(last) = page.last() {
                after = last.to_string();
            }
            members.extend(page);
            if is_last || members.len() >= max_members {
                return Ok(members);
            }
        }
    }
}
