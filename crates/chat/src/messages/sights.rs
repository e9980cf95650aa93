//! How much of a conversation's history a user sees.
//!
//! Always true: what a conversation shows to everybody is asked of the rows every half minute at most; where it shows what
//! was sent since somebody joined, the member's row is asked each time.

use std::time::Duration;

use quick_cache::sync::Cache;

use super::rows;
use crate::context::{Context, Moment};
use crate::database::Database;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

/// How long a conversation that shows everything is believed to.
const BELIEVED: Duration = Duration::from_secs(30);
/// Conversations that are remembered.
const MOST: usize = 10_000;

/// What a node knows about it.
pub(super) struct Sights {
    ctx: Context,
    database: Database,
    /// Until when each is believed to show everything.
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

    /// The last message that a user does not see; 0 if they see all. Somebody who is no member, as services are, sees all.
    pub(super) async fn hidden(&self, conversation: &ConversationId, user: &UserId) -> Result<u64> {
        let now = self.ctx.now();
        if self
            .whole
            .get(conversation)
            .is_some_and(|until| now < until)
        {
            return Ok(0);
        }
        let found = rows::visible(&self.database, conversation, user).await?;
        let Some((history, joined)) = found else {
            return Ok(0);
        };
        if history == "since_join" {
            return Ok(joined.unwrap_or_default());
        }
        self.whole.insert(conversation.clone(), now.plus(BELIEVED));
        Ok(0)
    }
}
