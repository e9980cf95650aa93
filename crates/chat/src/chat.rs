//! [`Chat`]: builds the capabilities of one node and connects them.
//!
//! Invariant: a capability receives the other capabilities that it needs as constructor arguments in [`Chat::new`], and
//! in no other way.

use std::sync::Arc;

use crate::api::error::Result;
use crate::background::{BackgroundTasks, log_failure};
use crate::context::ChatContext;
use crate::conversations::{self, Conversations};
use crate::database::Database;
use crate::ids::NodeId;
use crate::keys::KeySettings;
use crate::limits::RateLimiter;
use crate::live::{self, LiveUpdates};
use crate::messages::{self, Messages};
use crate::nodes::LocalNode;
use crate::options::ChatOptions;
use crate::outbox::OutboxWorker;
use crate::presence::Presence;
use crate::sessions::{self, Sessions};
use crate::store_binding::StoreBinding;
use crate::typing::Typing;
use crate::unread::{self, Unread};

/// The capabilities of one node.
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
    store_binding: Arc<StoreBinding>,
    live: Arc<LiveUpdates>,
    outbox: Arc<OutboxWorker>,
}

impl Chat {
    /// Creates the capabilities of a node. The node is not part of the cluster before [`start`](Self::start).
    pub fn new(ctx: ChatContext, database: Database, node: NodeId, options: &ChatOptions) -> Self {
        let local_node = Arc::new(LocalNode::new(ctx.clone(), node, options.grace_period));
        let unread = Unread::new(ctx.clone(), database.clone(), options.fanout_limit);
        let unread = Arc::new(unread);
        let presence = Arc::new(Presence::new(ctx.clone(), Arc::clone(&local_node)));
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
            nodes: local_node,
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
        let sessions = Sessions::new(ctx.clone(), database.clone(), options.sessions.clone());
        let sessions = Arc::new(sessions);
        let mut outbox = OutboxWorker::new(ctx.clone(), database.clone());
        conversations::register_outbox_kinds(&conversations, &mut outbox);
        messages::register_outbox_kinds(&messages, &mut outbox);
        sessions::register_outbox_kinds(&sessions, &mut outbox);
        unread::register_outbox_kinds(&unread, &mut outbox);
        Self {
            live: LiveUpdates::new(ctx.clone(), needs),
            messages,
            sessions,
            outbox: Arc::new(outbox),
            store_binding: Arc::new(StoreBinding::new(ctx.clone(), database.clone())),
            database,
            presence,
            typing,
            unread,
            conversations,
            limits,
            ctx,
        }
    }

    /// Checks that the store belongs to the database and registers this node. No operation may run before this has
    /// succeeded.
    pub async fn start(&self) -> Result<()> {
        self.store_binding.bind_or_verify().await?;
        self.messages.start().await?;
        self.presence.extend_deadlines_after_restart().await?;
        self.presence.start().await
    }

    /// Starts the background tasks.
    pub fn start_background_tasks(&self) -> BackgroundTasks {
        BackgroundTasks::merge([
            self.presence.start_background_tasks(),
            self.typing.start_background_tasks(),
            self.sessions.start_background_tasks(),
            self.conversations.start_row_removal(),
            self.unread.start_background_tasks(),
            self.messages.start_background_tasks(),
            self.store_binding.start_background_tasks(),
            self.live.start_background_tasks(),
            self.outbox.start_background_tasks(),
        ])
    }

    /// Flushes the messages, applies the outbox and leaves the cluster. Devices stay present for the grace period. What
    /// is not applied before the caller's deadline is applied by another node, or after the next start. Drop the
    /// [`BackgroundTasks`] before this call.
    pub async fn shut_down(&self) -> Result<()> {
        // Concurrently, because an unavailable database must not delay the presence shutdown: the other nodes have to
        // learn that the connections of this node are lost.
        let (applied, drained) = tokio::join!(self.apply_everything(), self.presence.drain());
        log_failure("apply the outbox before the shutdown", &applied);
        drained
    }

    async fn apply_everything(&self) -> Result<()> {
        self.messages.stop().await;
        self.outbox.drain().await.map(drop)
    }

    /// Presence: online status and devices of each user.
    pub fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }

    /// Sessions: login state and blocks of each user.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Typing indicators.
    pub fn typing(&self) -> &Arc<Typing> {
        &self.typing
    }

    /// Unread counts and read receipts.
    pub fn unread(&self) -> &Arc<Unread> {
        &self.unread
    }

    /// Conversations, their members and the members' roles.
    pub fn conversations(&self) -> &Arc<Conversations> {
        &self.conversations
    }

    /// Messages: sending, editing, deleting, history.
    pub fn messages(&self) -> &Arc<Messages> {
        &self.messages
    }

    /// Outbox: committed changes that may not be in the store yet.
    pub fn outbox(&self) -> &OutboxWorker {
        &self.outbox
    }

    /// Live events: pushes messages and other changes to the sockets of this node.
    pub fn live(&self) -> &Arc<LiveUpdates> {
        &self.live
    }

    /// Rate limits, shared by all nodes.
    pub fn limits(&self) -> &RateLimiter {
        &self.limits
    }

    /// The SQL database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Key layouts and TTLs.
    pub fn settings(&self) -> &KeySettings {
        self.ctx.keys().settings()
    }
}
