//! Notifications about conversations above the fan-out limit, for the members that this node has a user feed of.
//!
//! Invariants:
//! 1. A member receives at most one notification per second and conversation, however many nodes publish one, and it
//!    carries the newest `seq`.
//! 2. The member set has the version of the notification or a later one. At most [`MAX_CACHED_MEMBERS`] members are
//!    cached.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use parlor_store::{BusEvent, BusListener, BusListenerGuard};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Serialize;
use tokio::sync::{Notify, OnceCell};

use super::LiveUpdates;
use super::model::UserEvent;
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::frame::{BusFrame, BusFrameKind};
use crate::ids::{ConversationId, UserId};
use crate::throttle::ConversationThrottle;
use crate::unread::large_conversations::{self, MIN_NOTIFY_INTERVAL, Newest};

/// Maximum number of cached member sets, and of cached members in total.
const MAX_CACHED_CONVERSATIONS: usize = 1_000;
const MAX_CACHED_MEMBERS: u64 = 500_000;
/// Maximum number of members of one conversation that are notified: the first ones by user id.
const MAX_NOTIFIED_MEMBERS: usize = 200_000;
/// Maximum number of conversations that wait for a notification.
const MAX_READY_CONVERSATIONS: usize = 10_000;

/// Member set of a conversation at a `members_version`.
#[derive(Clone)]
struct MemberSet {
    version: u64,
    users: Arc<HashSet<UserId>>,
}

#[derive(Clone)]
struct MemberSetWeighter;

impl Weighter<ConversationId, MemberSet> for MemberSetWeighter {
    fn weight(&self, _: &ConversationId, members: &MemberSet) -> u64 {
        members.users.len() as u64 + 1
    }
}

/// State of the notifications about large conversations on this node.
pub(super) struct LargeConversations {
    bus_subscription: OnceCell<BusListenerGuard>,
    throttle: ConversationThrottle<Newest>,
    ready_to_notify: Mutex<HashMap<ConversationId, Newest>>,
    pub(super) ready_signal: Notify,
    member_cache: Cache<ConversationId, MemberSet, MemberSetWeighter>,
}

impl Default for LargeConversations {
    fn default() -> Self {
        Self {
            bus_subscription: OnceCell::new(),
            throttle: ConversationThrottle::new(MIN_NOTIFY_INTERVAL),
            ready_to_notify: Mutex::default(),
            ready_signal: Notify::new(),
            member_cache: Cache::with_weighter(
                MAX_CACHED_CONVERSATIONS,
                MAX_CACHED_MEMBERS,
                MemberSetWeighter,
            ),
        }
    }
}

/// Receives the frames of `parlor:large`, which every node publishes to.
struct LargeConversationListener(Weak<LiveUpdates>);

impl BusListener for LargeConversationListener {
    fn on_event(&self, event: &BusEvent) {
        let Some(live) = self.0.upgrade() else { return };
        match event {
            BusEvent::Message { payload, .. } => live.handle_large_frame(payload),
            // Outside of cluster mode the user channels share this bus connection and report the loss themselves.
            BusEvent::MaybeMissed if live.ctx.keys().cluster() => {
                for feed in live.user_feeds.all() {
                    feed.deliver(&UserEvent::EventsMaybeLost);
                }
            }
            BusEvent::MaybeMissed => {}
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LargeConversationUnread<'a> {
    conversation_id: &'a ConversationId,
    last_seq: u64,
}

impl LiveUpdates {
    /// Subscribes to `parlor:large` before the first user feed of this node opens.
    pub(super) async fn subscribe_large(self: &Arc<Self>) -> Result<()> {
        let bus_subscription =
            self.large_conversations
                .bus_subscription
                .get_or_try_init(async || {
                    let channel = self.ctx.keys().large_conversations_channel();
                    let listener = Arc::new(LargeConversationListener(Arc::downgrade(self)));
                    self.ctx
                        .store()
                        .bus()
                        .add_listener(channel.as_str(), listener)
                        .await
                });
        bus_subscription.await?;
        Ok(())
    }

    fn handle_large_frame(&self, frame: &[u8]) {
        let BusFrame::Known(BusFrameKind::LargeConversationMessage, body) = BusFrame::from(frame)
        else {
            return;
        };
        let Some((conversation, newest)) = large_conversations::decode_large_frame(body) else {
            return;
        };
        let now = self.ctx.now();
        if let Some(newest) = self
            .large_conversations
            .throttle
            .submit(&conversation, newest, now)
        {
            self.large_conversations.mark_ready(conversation, newest);
            self.large_conversations.ready_signal.notify_one();
        }
    }

    /// Notifies the members of large conversations whose notification is due.
    pub(super) async fn notify_large_members(&self) -> Result<()> {
        for (conversation, newest) in self.large_conversations.throttle.take_due(self.ctx.now()) {
            self.large_conversations.mark_ready(conversation, newest);
        }
        let ready = std::mem::take(&mut *self.large_conversations.ready_to_notify.lock());
        for (conversation, newest) in ready {
            let members = self.member_set_at(&conversation, newest.1).await;
            log_failure("load the members of a large conversation", &members);
            // The next message of the conversation triggers a notification again.
            let Ok(members) = members else { continue };
            let unread = LargeConversationUnread {
                conversation_id: &conversation,
                last_seq: newest.0,
            };
            let json =
                serde_json::to_vec(&unread).expect("an id and a number can be serialized as JSON");
            for feed in self.user_feeds.feeds_of(&members) {
                feed.deliver(&UserEvent::UnreadChanged(&json));
            }
        }
        Ok(())
    }

    async fn member_set_at(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<HashSet<UserId>>> {
        let known = self.large_conversations.member_cache.get(conversation);
        if let Some(known) = known.filter(|known| known.version >= version) {
            return Ok(known.users);
        }
        let users = self
            .conversations
            .load_members(conversation, MAX_NOTIFIED_MEMBERS);
        let users = Arc::new(users.await?);
        let members = MemberSet {
            version,
            users: Arc::clone(&users),
        };
        self.large_conversations
            .member_cache
            .insert(conversation.clone(), members);
        Ok(users)
    }
}

impl LargeConversations {
    fn mark_ready(&self, conversation: ConversationId, newest: Newest) {
        let mut ready = self.ready_to_notify.lock();
        if ready.len() < MAX_READY_CONVERSATIONS || ready.contains_key(&conversation) {
            let known = ready.entry(conversation).or_insert(newest);
            *known = newest.max(*known);
        }
    }
}
