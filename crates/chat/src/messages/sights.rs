//! How much of a conversation's history a user sees.
//!
//! Always true: what a conversation shows to everybody is asked of the rows every half minute at most; where it shows what
//! was sent since somebody joined, the member's row is asked each time.

use std::time::Duration;

use quick_cache::sync::Cache;

use super::rows;
use crate::context::{Context, Moment};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// How long a conversation that shows everything is believed to.
const BELIEVED: Duration = Duration::from_secs(30);
/// Conversations that are remembered.
const MOST: usize = 10_000;

/// What a node knows about it.
pub(super) struct Sights {
    ctx: Context,
    database: Database,
    /// When each was seen to show everything.
    whole: Cache<ConversationId, Moment>,
}

impl Sights {
    pub(super) fn new(ctx: Context, database: Database) -> Self {
        Self {
            ctx,
            database,
            whole: Cache::new(MOST),
        }
    }

    /// The last message that a member does not see; 0 if they see all. Where that depends on the member's row, somebody
    /// who has none is refused, whatever a cache says.
    pub(super) async fn hidden(&self, conversation: &ConversationId, user: &UserId) -> Result<u64> {
        let now = self.ctx.now();
        // A clock that was set back does not make it good for longer.
        let fresh = |seen: Moment| seen <= now && now < seen.plus(BELIEVED);
        if self.whole.get(conversation).is_some_and(fresh) {
            return Ok(0);
        }
        let found = rows::visible(&self.database, conversation, user).await?;
        let Some((history, joined)) = found else {
            return Ok(0);
        };
        if history == "since_join" {
            return joined.ok_or_else(|| Error::NotAMember(conversation.clone()));
        }
        self.whole.insert(conversation.clone(), now);
        Ok(0)
    }
}
