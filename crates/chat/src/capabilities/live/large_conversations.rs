//! Notifications about conversations above the fan-out limit, for the members that this node has a user feed of.
//!
//! Invariants:
//! 1. A member receives at most one notification per second and conversation, however many nodes publish one, and it
//!    carries the newest `seq`.
//! 2. The member set has the version of the notification or a later one. At most [`MAX_CACHED_MEMBERS`] members are
//!    cached.
//! 3. A change of members costs one read of the rows that it names. All members are read again only if a version was
//!    missed or a change names too many users.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
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
use crate::conversations::LargeMembersChangedFrame;
use crate::ids::{ConversationId, UserId};
use crate::throttle::NewestThrottle;
use crate::unread::large_conversations::{self, Newest, new_throttle};

/// Maximum number of cached member sets, and of cached members in total.
const MAX_CACHED_CONVERSATIONS: usize = 1_000;
const MAX_CACHED_MEMBERS: u64 = 500_000;
/// Maximum number of members of one conversation that are notified: the first ones by user id.
const MAX_NOTIFIED_MEMBERS: usize = 200_000;
/// Maximum number of changed users of a cached member set. After more changes, all members are read again.
const MAX_RECORDED_CHANGES: usize = 1_000;
/// Maximum number of conversations that wait for a notification.
const MAX_READY_CONVERSATIONS: usize = 10_000;

/// Member set of a conversation at a `members_version`.
#[derive(Clone)]
struct MemberSet {
    version: u64,
    users: Arc<HashSet<UserId>>,
    /// Users whose membership has changed since `users` was read. Their rows are read with the next notification.
    changed: Vec<UserId>,
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
    throttle: NewestThrottle<ConversationId, Newest>,
    ready_to_notify: Mutex<HashMap<ConversationId, Newest>>,
    pub(super) ready_signal: Notify,
    member_cache: Cache<ConversationId, MemberSet, MemberSetWeighter>,
    /// Held while an entry of the cache is replaced.
    member_cache_update: Mutex<()>,
    member_set_loads: AtomicU64,
}

impl Default for LargeConversations {
    fn default() -> Self {
        Self {
            bus_subscription: OnceCell::new(),
            throttle: new_throttle(),
            ready_to_notify: Mutex::default(),
            ready_signal: Notify::new(),
            member_cache: Cache::with_weighter(
                MAX_CACHED_CONVERSATIONS,
                MAX_CACHED_MEMBERS,
                MemberSetWeighter,
            ),
            member_cache_update: Mutex::default(),
            member_set_loads: AtomicU64::new(0),
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
        match BusFrame::from(frame) {
            BusFrame::Known(BusFrameKind::LargeConversationMessage, body) => {
                self.handle_large_message(body);
            }
            BusFrame::Known(BusFrameKind::LargeMembersChanged, body) => {
                if let Ok(change) = serde_json::from_slice(body) {
                    self.large_conversations.record_change(change);
                }
            }
            _ => {}
        }
    }

    fn handle_large_message(&self, body: &[u8]) {
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

    /// Number of times that all members of a large conversation were read, for tests of the cache.
    pub fn member_set_loads(&self) -> u64 {
        let loads = &self.large_conversations.member_set_loads;
        loads.load(Ordering::Relaxed)
    }

    async fn member_set_at(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<HashSet<UserId>>> {
        let large = &self.large_conversations;
        let known = large.member_cache.get(conversation);
        if let Some(known) = known.filter(|known| known.version >= version) {
            if known.changed.is_empty() {
                return Ok(known.users);
            }
            let left = self
                .conversations
                .filter_non_members(conversation, &known.changed)
                .await?;
            return Ok(large.apply_changes(conversation, known, &left));
        }
        large.member_set_loads.fetch_add(1, Ordering::Relaxed);
        let users = self
            .conversations
            .load_members(conversation, MAX_NOTIFIED_MEMBERS);
        let users = Arc::new(users.await?);
        let members = MemberSet {
            version,
            users: Arc::clone(&users),
            changed: Vec::new(),
        };
        let _update = large.member_cache_update.lock();
        large.member_cache.insert(conversation.clone(), members);
        Ok(users)
    }
}

impl LargeConversations {
    /// Records a change of members. If it is not the next one, or names no user, the members are read again.
    fn record_change(&self, change: LargeMembersChangedFrame) {
        let _update = self.member_cache_update.lock();
        let Some((conversation, mut known)) = self.member_cache.remove(&change.conversation_id)
        else {
            return;
        };
        if change.members_version > known.version {
            let is_next = change.members_version == known.version + 1;
            let count = known.changed.len() + change.user_ids.len();
            let is_bounded =
                count <= MAX_RECORDED_CHANGES && known.users.len() + count <= MAX_NOTIFIED_MEMBERS;
            if !is_next || change.user_ids.is_empty() || !is_bounded {
                return;
            }
            known.version = change.members_version;
            known.changed.extend(change.user_ids);
        }
        self.member_cache.insert(conversation, known);
    }

    /// Updates a set by the changes that it contains: users in `left` are no members, the other changed users are.
    fn apply_changes(
        &self,
        conversation: &ConversationId,
        known: MemberSet,
        left: &[UserId],
    ) -> Arc<HashSet<UserId>> {
        let MemberSet {
            mut users, changed, ..
        } = known;
        let _update = self.member_cache_update.lock();
        let cached = self.member_cache.get(conversation);
        // Only the set that the changes belong to is replaced.
        let later = cached.filter(|it| Arc::ptr_eq(&it.users, &users));
        let later = later.map(|it| (it.version, it.changed));
        if later.is_some() {
            self.member_cache.remove(conversation);
        }
        // The set is copied only if another task uses it.
        let members = Arc::make_mut(&mut users);
        for user in &changed {
            match left.contains(user) {
                true => members.remove(user),
                false => members.insert(user.clone()),
            };
        }
        if let Some((version, recorded)) = later {
            let members = MemberSet {
                version,
                users: Arc::clone(&users),
                changed: recorded.into_iter().skip(changed.len()).collect(),
            };
            self.member_cache.insert(conversation.clone(), members);
        }
        users
    }

    fn mark_ready(&self, conversation: ConversationId, newest: Newest) {
        let mut ready = self.ready_to_notify.lock();
        if ready.len() < MAX_READY_CONVERSATIONS || ready.contains_key(&conversation) {
            let known = ready.entry(conversation).or_insert(newest);
            *known = newest.max(*known);
        }
    }
}
