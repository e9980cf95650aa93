//! Visibility: the part of a conversation's history that a user may see.
//!
//! Invariants:
//! 1. The cache keeps for `VISIBILITY_TTL` that a conversation shows its whole history to every member.
//! 2. If a conversation shows its history only since a member joined, the member's row is read each time.

use std::time::Duration;

use quick_cache::sync::Cache;

use super::rows;
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::context::ChatContext;
use crate::conversations::HistoryVisibility;
use crate::database::Database;
use crate::ids::{ConversationId, UserId};

/// How long a cache entry is used.
const VISIBILITY_TTL: Duration = Duration::from_secs(30);
/// Maximum number of cached conversations.
const MAX_CACHED_CONVERSATIONS: usize = 10_000;

/// Caches which conversations show their whole history to every member.
pub(super) struct VisibilityCache {
    ctx: ChatContext,
    database: Database,
    /// Time at which a conversation was last seen to show its whole history.
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

    /// Returns the last `seq` that a member may not see, 0 if all messages are visible. If this depends on the member's
    /// row, a user without a row is rejected, even if a membership cache contains the user.
    pub(super) async fn hidden_through_seq(
        &self,
        conversation: &ConversationId,
        user: &UserId,
    ) -> Result<u64> {
        let now = self.ctx.now();
        // A clock that jumps back must not extend the period.
        let fresh = |seen: Timestamp| seen <= now && now < seen.saturating_add(VISIBILITY_TTL);
        if self.fully_visible.get(conversation).is_some_and(fresh) {
            return Ok(0);
        }
        let visibility = rows::find_visibility(&self.database, conversation, user).await?;
        match visibility {
            None => Ok(0),
            Some((HistoryVisibility::SinceJoin, joined_seq)) => {
                joined_seq.ok_or_else(|| Error::NotAMember(conversation.clone()))
            }
            Some((HistoryVisibility::All, _)) => {
                self.fully_visible.insert(conversation.clone(), now);
                Ok(0)
            }
        }
    }
}
