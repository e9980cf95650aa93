//! How much of a conversation's history a user sees.
//!
//! Always true: what a conversation shows to everybody is asked of the rows every half minute at most; where it shows what
//! was sent since somebody joined, the member's row is asked each time.

use std::time::Duration;

use quick_cache::sync::Cache;

use super::rows;
use crate::context::{ChatContext, Timestamp};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// How long a conversation that shows everything is believed to.
const VISIBILITY_TTL: Duration = Duration::from_secs(30);
/// Conversations that are remembered.
const MAX_CACHED_CONVERSATIONS: usize = 10_000;

/// What a node knows about it.
pub(super) struct VisibilityCache {
    ctx: ChatContext,
    database: Database,
    /// When each was seen to show everything.
    fully_visible: Cache<ConversationId, Timestamp>,
}

impl VisibilityCache {
    pub(super) fn new(ctx: ChatContext, database: Database) -> Self {
        Self {
            ctx,
            database,
            fully_visible: Cache::new(MAX_CACHED_CONVERSATIONS),
        }
    }

    /// The last message that a member does not see; 0 if they see all. Where that depends on the member's row, somebody
    /// who has none is refused, whatever a cache says.
    pub(super) async fn hidden_through_seq(
        &self,
        conversation: &ConversationId,
        user: &UserId,
    ) -> Result<u64> {
        let now = self.ctx.now();
        // A clock that was set back does not make it good for longer.
        let fresh = |seen: Timestamp| seen <= now && now < seen.saturating_add(VISIBILITY_TTL);
        if self.fully_visible.get(conversation).is_some_and(fresh) {
            return Ok(0);
        }
        let found = rows::find_visibility(&self.database, conversation, user).await?;
        let Some((history, joined)) = found else {
            return Ok(0);
        };
        if history == "since_join" {
            return joined.ok_or_else(|| Error::NotAMember(conversation.clone()));
        }
        self.fully_visible.insert(conversation.clone(), now);
        Ok(0)
    }
}
