//! The capabilities of one node, put together.
//!
//! Always true: what a capability needs of another is given to it here, and nowhere else.

use std::sync::Arc;

use crate::context::ChatContext;
use crate::conversations::Conversations;
use crate::database::Database;
use crate::error::Result;
use crate::ids::NodeId;
use crate::keys::KeySettings;
use crate::limits::RateLimiter;
use crate::live::{self, LiveUpdates};
use crate::membership::Members;
use crate::messages::{self, Messages};
use crate::nodes::LocalNode;
use crate::options::ChatOptions;
use crate::ownership::StoreBinding;
use crate::presence::Presence;
use crate::sessions::Sessions;
use crate::typing::Typing;
use crate::unread::Unread;

pub use crate::ticking::BackgroundTasks;

/// A chat as one node serves it.
pub struct Chat {
    ctx: ChatContext,
    database: Database,
    presence: Arc<Presence>,
    sessions: Arc<Sessions>,
    typing: Arc<Typing>,
    unread: Arc<Unread>,
    conversations: Arc<Conversations>,
    limits: RateLimiter,
    messages: Arc<Messages>,
    ownership: Arc<StoreBinding>,
    live: Arc<LiveUpdates>,
}

impl Chat {
    /// The chat of a node that has not started.
    pub fn new(ctx: ChatContext, database: Database, node: NodeId, options: &ChatOptions) -> Self {
        let nodes = Arc::new(LocalNode::new(ctx.clone(), node, options.grace_period));
        let unread = Unread::new(ctx.clone(), database.clone(), options.fanout_limit);
        let unread = Arc::new(unread);
        let presence = Arc::new(Presence::new(ctx.clone(), Arc::clone(&nodes)));
        let conversations = Conversations::new(
            ctx.clone(),
            database.clone(),
            Arc::clone(&unread),
            Arc::clone(&presence),
        );
        let conversations = Arc::new(conversations);
        let typing = Arc::new(Typing::new(ctx.clone()));
        let limits = RateLimiter::new(ctx.clone());
        let needs = messages::MessageDependencies {
            conversations: Arc::clone(&conversations),
            unread: Arc::clone(&unread),
            limits: limits.clone(),
            typing: Arc::clone(&typing),
            nodes,
        };
        let messages = Messages::new(
            ctx.clone(),
            database.clone(),
            needs,
            options.messages.clone(),
        );
        let needs = live::LiveDependencies {
            messages: Arc::clone(&messages),
            typing: Arc::clone(&typing),
            conversations: Arc::clone(&conversations),
            unread: Arc::clone(&unread),
        };
        Self {
            live: LiveUpdates::new(ctx.clone(), needs),
            messages,
            sessions: Arc::new(Sessions::new(
                ctx.clone(),
                database.clone(),
                options.sessions.clone(),
            )),
            ownership: Arc::new(StoreBinding::new(ctx.clone(), database.clone())),
            database,
            presence,
            typing,
            unread,
            conversations,
            limits,
            ctx,
        }
    }

    /// Joins the other nodes. Nothing may be asked before.
    pub async fn start(&self) -> Result<()> {
        self.ownership.bind_or_verify().await?;
        self.presence.extend_deadlines_after_restart().await?;
        self.presence.start().await
    }

    /// Starts the background work.
    pub fn start_background_tasks(&self) -> BackgroundTasks {
        let ticking = self.presence.tick().merge(self.typing.tick());
        let ticking = ticking.merge(self.sessions.tick());
        let ticking = ticking.merge(self.conversations.tick());
        let ticking = ticking
            .merge(self.unread.tick())
            .merge(self.messages.tick());
        ticking.merge(self.ownership.tick()).merge(self.live.tick())
    }

    /// Writes what was collected and leaves the other nodes; presence stays through the grace time. The ticking has to end
    /// before.
    pub async fn shut_down(&self) -> Result<()> {
        // At once: a database that is away must not keep the others from being told.
        let ((), drained) = tokio::join!(self.messages.stop(), self.presence.drain());
        drained
    }

    /// Who is here.
    pub fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    /// Who is in.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Who types.
    pub fn typing(&self) -> &Arc<Typing> {
        &self.typing
    }

    /// What waits for whom.
    pub fn unread(&self) -> &Arc<Unread> {
        &self.unread
    }

    /// Who talks to whom.
    pub fn conversations(&self) -> &Arc<Conversations> {
        &self.conversations
    }

    /// What was said.
    pub fn messages(&self) -> &Arc<Messages> {
        &self.messages
    }

    /// What happens, told as it does.
    pub fn live(&self) -> &Arc<LiveUpdates> {
        &self.live
    }

    /// How often something may be done.
    pub fn limits(&self) -> &RateLimiter {
        &self.limits
    }

    /// Who belongs to which conversation.
    pub fn members(&self) -> &dyn Members {
        &*self.conversations
    }

    /// The rows.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Layouts and times.
    pub fn settings(&self) -> &KeySettings {
        self.ctx.keys().settings()
    }
}
