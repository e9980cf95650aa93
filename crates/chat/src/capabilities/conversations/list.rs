//! The list of a user's conversations: the main screen of a chat application.
//!
//! Invariant: a page costs one database statement and one request to the store, however many conversations it has.

use super::list_rows::find_list;
use super::{ConversationSummary, Conversations};
use crate::api::error::Result;
use crate::api::pagination::{self, invalid_cursor};
use crate::ids::{ConversationId, UserId};

impl Conversations {
    /// Lists the conversations of a user by their last activity, newest first, with the cursor of the next page.
    pub(super) async fn list_conversations(
        &self,
        user: &UserId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<(Vec<ConversationSummary>, Option<String>)> {
        let (last_at, after) = match cursor {
            Some(cursor) => parse_list_cursor(&pagination::decode_cursor(cursor)?)?,
            None => (i64::MAX, String::new()),
        };
        let mut rows = find_list(&self.database, user, (last_at, &after), limit + 1).await?;
        let next_cursor = pagination::cut_page(&mut rows, limit, |row| {
            format!("{} {}", row.conversation.last_at, row.conversation.id)
        });
        let others = rows
            .iter()
            .filter_map(|it| it.conversation.other_user(user));
        let others: Vec<UserId> = others.collect();
        let mut statuses = self.presence.statuses(&others).await?.into_iter();
        let now = self.ctx.now();
        let summaries = rows.into_iter().map(|row| {
            let other_user = row.conversation.other_user(user);
            ConversationSummary {
                other_user: other_user.and_then(|_| statuses.next()),
                ..row.into_summary(now)
            }
        });
        Ok((summaries.collect(), next_cursor))
    }
}

/// Parses a cursor of the list: `last_at` and id of the last conversation of the previous page.
fn parse_list_cursor(text: &str) -> Result<(i64, String)> {
    let (last_at, id) = text.split_once(' ').ok_or_else(invalid_cursor)?;
    let last_at = last_at.parse().map_err(|_| invalid_cursor())?;
    ConversationId::new(id).map_err(|_| invalid_cursor())?;
    Ok((last_at, id.to_owned()))
}
