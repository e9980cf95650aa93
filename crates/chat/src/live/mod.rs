//! Live: what happens, told to the sockets of this node.
//!
//! Always true:
//! 1. A follower is told a conversation's messages in the order of `seq`, each once, and none is left out: what the bus lost
//!    is read from the rows before anything later is told.
//! 2. Of one message a change is never told after a newer one. Changes are told in the order of `rev`, those of messages that
//!    are yet to be told as well: somebody may have read them from the rows.
//! 3. An idle follower costs an entry in the bus and no task.
//! 4. A follower that is dropped is told nothing more, but for a call that has begun; what was under way for it ends.

mod ends;
mod large;
mod mend;
mod news;
mod revs;
mod room;
mod typers;
mod user;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use parlor_store::{BusListener, BusListenerGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

use self::ends::TypingDeadlines;
use self::large::LargeConversations;
use self::room::{ConversationFeed, FeedState};
use self::user::{UserFeed, UserFeedRegistry};
use crate::context::ChatContext;
use crate::conversations::Conversations;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;
use crate::messages::Messages;
use crate::ticking::{BackgroundTask, BackgroundTasks, log_failure};
use crate::typing::Typing;
use crate::unread::Unread;

pub use self::news::{ConversationEvent, ConversationSubscriber, UserEvent, UserSubscriber};

/// How often is looked whose typing has ended.
const TYPING_EXPIRY_INTERVAL: Duration = Duration::from_millis(100);
/// How often is looked what may be told of large conversations.
const LARGE_NOTIFY_INTERVAL: Duration = Duration::from_millis(250);

/// What live news need of the other capabilities.
pub struct LiveDependencies {
    /// What was said, and what was missed of it.
    pub messages: Arc<Messages>,
    /// Who types.
    pub typing: Arc<Typing>,
    /// Who is a member.
    pub conversations: Arc<Conversations>,
    /// How far the members have read.
    pub unread: Arc<Unread>,
}

/// What happens, as one node hears of it.
pub struct LiveUpdates {
    ctx: ChatContext,
    messages: Arc<Messages>,
    typing: Arc<Typing>,
    conversations: Arc<Conversations>,
    unread: Arc<Unread>,
    next_feed_id: AtomicU64,
    typing_deadlines: TypingDeadlines,
    resync_permits: Semaphore,
    user_feeds: UserFeedRegistry,
    large_conversations: LargeConversations,
}

/// A follower. Dropping it ends the following; that takes no lock under which a sink is called. It keeps the sink: a sink
/// that keeps its follower has to give it up one day.
#[must_use = "the subscription ends when this is dropped"]
pub struct LiveSubscription {
    _bus_subscription: BusListenerGuard,
    target: SubscriptionTarget,
}

enum SubscriptionTarget {
    Conversation(Arc<ConversationFeed>),
    User(Arc<LiveUpdates>, Arc<UserFeed>),
}

impl LiveUpdates {
    /// What happens, as a node hears of it.
    pub fn new(ctx: ChatContext, needs: LiveDependencies) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            messages: needs.messages,
            typing: needs.typing,
            conversations: needs.conversations,
            unread: needs.unread,
            next_feed_id: AtomicU64::new(0),
            typing_deadlines: TypingDeadlines::default(),
            resync_permits: Semaphore::new(mend::MAX_CONCURRENT_RESYNCS),
            user_feeds: UserFeedRegistry::default(),
            large_conversations: LargeConversations::default(),
        })
    }

    /// Tells a sink what happens in a conversation, from when this returns: whoever reads the conversation after that, by
    /// [`CatchUp`](crate::messages::CatchUp) or another way, finds everything that the sink is not told. To be called once
    /// for all who are shown the conversation on this node.
    pub async fn conversation(
        self: &Arc<Self>,
        id: &ConversationId,
        sink: Arc<dyn ConversationSubscriber>,
    ) -> Result<LiveSubscription> {
        let number = self.next_feed_id.fetch_add(1, Ordering::Relaxed);
        let room = Arc::new_cyclic(|me| ConversationFeed {
            weak_self: me.clone(),
            live: Arc::clone(self),
            conversation: id.clone(),
            feed_id: number,
            subscriber: sink,
            state: Mutex::new(FeedState::new_holding()),
            is_closed: AtomicBool::new(false),
            close_signal: Notify::new(),
        });
        let channel = self.ctx.keys().conversation_channel(id);
        let heard = Arc::clone(&room) as Arc<dyn BusListener>;
        let bus = self.ctx.store().bus();
        let follow = LiveSubscription {
            _bus_subscription: bus.add_sharded_listener(channel.as_str(), heard).await?,
            target: SubscriptionTarget::Conversation(room),
        };
        if let SubscriptionTarget::Conversation(room) = &follow.target {
            room.open().await?;
        }
        Ok(follow)
    }

    /// Tells a sink what concerns a user, from when this returns. To be called once for all sockets of the user on this
    /// node.
    pub async fn user(
        self: &Arc<Self>,
        id: &UserId,
        sink: Arc<dyn UserSubscriber>,
    ) -> Result<LiveSubscription> {
        self.subscribe_large().await?;
        let line = Arc::new(UserFeed {
            user: id.clone(),
            subscriber: sink,
            is_closed: AtomicBool::new(false),
        });
        let channel = self.ctx.keys().user_channel(id);
        let heard = Arc::clone(&line) as Arc<dyn BusListener>;
        let bus = self.ctx.store().bus();
        let listening = bus.add_sharded_listener(channel.as_str(), heard).await?;
        self.user_feeds.add(&line);
        Ok(LiveSubscription {
            _bus_subscription: listening,
            target: SubscriptionTarget::User(Arc::clone(self), line),
        })
    }

    /// Tells whose typing has ended, and what waited of large conversations. To be called some times a second.
    pub async fn run_background_once(&self) -> Result<()> {
        self.expire_typing();
        self.notify_large_members().await
    }

    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> BackgroundTasks {
        let large = Arc::clone(self);
        BackgroundTasks::new(vec![
            BackgroundTask::spawn_periodic(
                self,
                TYPING_EXPIRY_INTERVAL,
                "expire typing indicators",
                |it| async move {
                    it.expire_typing();
                    Ok(())
                },
            ),
            // Apart: ends are told on time also while the database does not answer.
            BackgroundTask::spawn(async move {
                loop {
                    let next = Instant::now() + LARGE_NOTIFY_INTERVAL;
                    // Sooner if something was heard.
                    drop(timeout_at(next, large.large_conversations.ready_signal.notified()).await);
                    log_failure(
                        "notify the members of large conversations",
                        &large.notify_large_members().await,
                    );
                }
            }),
        ])
    }

    fn expire_typing(&self) {
        let now = self.ctx.now();
        for (room, user) in self.typing_deadlines.take_due(now) {
            room.expire_typer(&user, now);
        }
    }

    fn typing_ttl(&self) -> Duration {
        self.ctx.keys().ttl(TtlName::Typing)
    }
}

impl Drop for LiveSubscription {
    fn drop(&mut self) {
        match &self.target {
            SubscriptionTarget::Conversation(room) => {
                room.is_closed.store(true, Ordering::Release);
                room.close_signal.notify_one();
            }
            SubscriptionTarget::User(live, line) => {
                line.is_closed.store(true, Ordering::Release);
                live.user_feeds.remove(line);
            }
        }
    }
}

impl std::fmt::Debug for LiveUpdates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiveUpdates")
    }
}

impl std::fmt::Debug for LiveSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.target {
            SubscriptionTarget::Conversation(room) => {
                write!(f, "LiveSubscription({})", room.conversation)
            }
            SubscriptionTarget::User(_, line) => write!(f, "LiveSubscription({})", line.user),
        }
    }
}
