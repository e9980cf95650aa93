//! Live updates: delivers what happens in a conversation, or to a user, to the subscribers on this node.
//!
//! A feed listens to the bus once per conversation or user and node, however many sockets there are. After a gap or a
//! lost bus connection it reads the missing events from the database.
//!
//! Invariants:
//! 1. A subscriber receives the messages of a conversation in the order of `seq`, each once and without gaps: messages
//!    that the bus lost are read from the database before any later message is delivered.
//! 2. An older revision of a message is never delivered after a newer one. Changes are delivered in the order of `rev`.
//!    This includes changes of messages that the feed has not delivered yet, because clients may have loaded them from
//!    the history.
//! 3. An idle subscription costs one entry in the bus and no task.
//! 4. Dropping a subscription ends its resync. The subscriber receives no further event, except by a call that has
//!    already begun.

mod apply_frame;
mod conversation_feed;
mod large_conversations;
mod model;
mod resync;
mod revision_cursor;
mod typing_deadlines;
mod typing_state;
mod user_feed;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use parlor_store::{BusListener, BusListenerGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use self::conversation_feed::{ConversationFeed, FeedState};
use self::large_conversations::LargeConversations;
use self::typing_deadlines::TypingDeadlines;
use self::user_feed::{UserFeed, UserFeedRegistry};
use crate::api::error::Result;
use crate::background::{BackgroundTask, BackgroundTasks, log_failure};
use crate::context::ChatContext;
use crate::conversations::Conversations;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;
use crate::messages::Messages;
use crate::typing::Typing;
use crate::unread::Unread;

pub use self::model::{ConversationEvent, ConversationSubscriber, UserEvent, UserSubscriber};

/// Interval at which expired typing indicators are removed.
const TYPING_EXPIRY_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait before the pending notifications about large conversations are checked.
const LARGE_NOTIFY_INTERVAL: Duration = Duration::from_millis(250);

/// Capabilities that the live feeds read from.
pub struct LiveDependencies {
    /// Messages and changes that a feed has missed.
    pub messages: Arc<Messages>,
    /// Current typers of a conversation.
    pub typing: Arc<Typing>,
    /// Members of a conversation.
    pub conversations: Arc<Conversations>,
    /// Receipts of the members.
    pub unread: Arc<Unread>,
}

/// Service that creates the live feeds of this node.
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

/// Handle of a subscription; dropping it ends the subscription. The drop takes no lock under which a subscriber is
/// called. The handle keeps its subscriber alive: a subscriber that owns its handle must drop the handle to avoid a
/// leak.
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
    /// Creates the service without starting its background tasks.
    pub fn new(ctx: ChatContext, dependencies: LiveDependencies) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            messages: dependencies.messages,
            typing: dependencies.typing,
            conversations: dependencies.conversations,
            unread: dependencies.unread,
            next_feed_id: AtomicU64::new(0),
            typing_deadlines: TypingDeadlines::default(),
            resync_permits: Semaphore::new(resync::MAX_CONCURRENT_RESYNCS),
            user_feeds: UserFeedRegistry::default(),
            large_conversations: LargeConversations::default(),
        })
    }

    /// Subscribes to the events of a conversation that happen after this call returns. A client that loads the
    /// conversation after the call, for example by [`CatchUpConversation`](crate::messages::CatchUpConversation), finds
    /// everything that is not delivered. Call this once per conversation and node, for all clients that are shown the
    /// conversation.
    pub async fn conversation(
        self: &Arc<Self>,
        id: &ConversationId,
        subscriber: Arc<dyn ConversationSubscriber>,
    ) -> Result<LiveSubscription> {
        let feed = Arc::new_cyclic(|weak_self| ConversationFeed {
            weak_self: weak_self.clone(),
            live: Arc::clone(self),
            conversation: id.clone(),
            feed_id: self.next_feed_id.fetch_add(1, Ordering::Relaxed),
            subscriber,
            state: Mutex::new(FeedState::new_holding()),
            is_closed: AtomicBool::new(false),
            close_signal: Notify::new(),
        });
        let channel = self.ctx.keys().conversation_channel(id);
        let listener = Arc::clone(&feed) as Arc<dyn BusListener>;
        let bus = self.ctx.store().bus();
        let bus_subscription = bus.add_sharded_listener(channel.as_str(), listener).await?;
        feed.open().await?;
        Ok(LiveSubscription {
            _bus_subscription: bus_subscription,
            target: SubscriptionTarget::Conversation(feed),
        })
    }

    /// Subscribes to the events of a user that happen after this call returns. Call this once per user and node, for
    /// all sockets of the user.
    pub async fn user(
        self: &Arc<Self>,
        id: &UserId,
        subscriber: Arc<dyn UserSubscriber>,
    ) -> Result<LiveSubscription> {
        self.subscribe_large().await?;
        let feed = Arc::new(UserFeed {
            user: id.clone(),
            subscriber,
            is_closed: AtomicBool::new(false),
        });
        let channel = self.ctx.keys().user_channel(id);
        let listener = Arc::clone(&feed) as Arc<dyn BusListener>;
        let bus = self.ctx.store().bus();
        let bus_subscription = bus.add_sharded_listener(channel.as_str(), listener).await?;
        self.user_feeds.add(&feed);
        Ok(LiveSubscription {
            _bus_subscription: bus_subscription,
            target: SubscriptionTarget::User(Arc::clone(self), feed),
        })
    }

    /// Expires typing indicators and sends the notifications about large conversations that are due.
    pub async fn run_background_once(&self) -> Result<()> {
        self.expire_typing();
        self.notify_large_members().await
    }

    /// Starts the background tasks; they stop when the returned value is dropped.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        let live = Arc::clone(self);
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
            // A separate task: typing indicators expire on time even if the database does not answer.
            BackgroundTask::spawn(async move {
                loop {
                    // A frame from the bus ends the wait early.
                    let ready = live.large_conversations.ready_signal.notified();
                    drop(timeout(LARGE_NOTIFY_INTERVAL, ready).await);
                    log_failure(
                        "notify the members of large conversations",
                        &live.notify_large_members().await,
                    );
                }
            }),
        ])
    }

    fn expire_typing(&self) {
        let now = self.ctx.now();
        for (feed, user) in self.typing_deadlines.take_due(now) {
            feed.expire_typer(&user, now);
        }
    }

    fn typing_ttl(&self) -> Duration {
        self.ctx.keys().ttl(TtlName::Typing)
    }
}

impl Drop for LiveSubscription {
    fn drop(&mut self) {
        match &self.target {
            SubscriptionTarget::Conversation(feed) => {
                feed.is_closed.store(true, Ordering::Release);
                feed.close_signal.notify_one();
            }
            SubscriptionTarget::User(live, feed) => {
                feed.is_closed.store(true, Ordering::Release);
                live.user_feeds.remove(feed);
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
            SubscriptionTarget::Conversation(feed) => {
                write!(f, "LiveSubscription({})", feed.conversation)
            }
            SubscriptionTarget::User(_, feed) => write!(f, "LiveSubscription({})", feed.user),
        }
    }
}
