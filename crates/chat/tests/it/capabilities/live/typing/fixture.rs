//! Fixture: nodes with a typing layout, and subscriptions that record every typing change.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::clock::Timestamp;
use parlor_chat::conversations::HistoryVisibility;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::keys::{TtlName, TypingLayout};
use parlor_chat::live::{ConversationEvent, ConversationSubscriber, LiveSubscription};
use parlor_chat::typing::TypingChange;
use tokio::sync::Notify;

use crate::capabilities::live::fixture::World;
use crate::capabilities::messages::fixture::PublishedFrame;
use crate::support::backend::TestBackend;
use crate::support::{Fixture, conversation, user, with_timeout};

pub const NOTHING: [&str; 0] = [];

/// Prefix of the users whose frames mark how far a subscriber has read. No other user has it.
const MARKER: &str = "marker";

pub struct TypingWorld(World);

impl Fixture<TypingLayout> for TypingWorld {
    async fn on(backend: TestBackend, layout: TypingLayout) -> Self {
        Self(World::with_typing_layout(backend, layout).await)
    }
}

impl TypingWorld {
    pub fn ttl(&self) -> Duration {
        self.keys.ttl(TtlName::Typing)
    }

    pub async fn create_conversation(&self, conv: &str) {
        self.create(conv, HistoryVisibility::All).await;
    }

    pub async fn start_typing(&self, node: usize, conv: &str, who: &str) {
        let typing = self.nodes[node].typing();
        let (conv, who) = (conversation(conv), user(who));
        typing.start(&conv, &who, None).await.unwrap();
    }

    pub async fn stop_typing(&self, node: usize, conv: &str, who: &str) {
        let typing = self.nodes[node].typing();
        typing.stop(&conversation(conv), &user(who)).await.unwrap();
    }

    /// Lists the ids of the stored typing users.
    pub async fn typing_users(&self, node: usize, conv: &str) -> Vec<String> {
        let typing = self.nodes[node].typing();
        let users = typing.typing_users(&conversation(conv)).await.unwrap();
        users.iter().map(|it| it.user_id.to_string()).collect()
    }

    /// Ends the typing indicators of a node that have expired.
    pub async fn expire(&self, node: usize) {
        self.nodes[node].live().run_background_once().await.unwrap();
    }

    /// Subscribes to a conversation on a node.
    pub async fn record(&self, node: usize, conv: &str) -> TypingSubscription {
        let conversation = conversation(conv);
        let recorder = Arc::new(TypingRecorder::default());
        let subscriber = Arc::clone(&recorder) as Arc<dyn ConversationSubscriber>;
        let live = self.nodes[node].live();
        let subscription = live.conversation(&conversation, subscriber).await.unwrap();
        TypingSubscription {
            recorder,
            conversation,
            _subscription: subscription,
        }
    }

    pub async fn publish(&self, conv: &str, frame: &[u8]) {
        let channel = self.keys.conversation_channel(&conversation(conv));
        let bus = self.store.bus();
        bus.publish_sharded(channel.as_str(), frame).await.unwrap();
    }

    /// Publishes the start and the stop of a new marker user, and returns the marker user.
    pub async fn publish_marker(&self, conv: &str) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let marker = format!("{MARKER}{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let until = self.now().saturating_add(self.ttl()).as_millis();
        for until in [until, 0] {
            self.publish(conv, &typing_frame(until, &marker)).await;
        }
        marker
    }

    /// Returns the frames published in `c1` since the last call: `alice types`, `alice stopped`.
    pub async fn typing_frames(&mut self) -> Vec<String> {
        let latest = self.now().saturating_add(self.ttl());
        let mut frames = Vec::new();
        for frame in self.frames().await {
            match frame {
                PublishedFrame::Typing(who, _) if who.starts_with(MARKER) => {}
                PublishedFrame::Typing(who, until) => {
                    assert!(Timestamp(until) <= latest, "{who} {until}");
                    frames.push(describe(&who, until > 0));
                }
                other => unreachable!("{other:?} is not a typing frame"),
            }
        }
        frames
    }

    /// Number of bus subscriptions of a conversation.
    pub async fn bus_subscriptions(&self, conv: &str) -> u64 {
        let channel = self.keys.conversation_channel(&conversation(conv));
        let mut count = redis::cmd("PUBSUB");
        count.arg("NUMSUB").arg(channel.as_str());
        let (_, count): (String, u64) = count.query_async(&mut self.store.clone()).await.unwrap();
        count
    }
}

impl Deref for TypingWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl DerefMut for TypingWorld {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.0
    }
}

/// Encodes a typing frame without the code under test.
pub fn typing_frame(until: u64, user: &str) -> Vec<u8> {
    let mut frame = vec![1, 1];
    frame.extend(until.to_be_bytes());
    frame.push(u8::try_from(user.len()).unwrap());
    frame.extend(user.as_bytes());
    frame
}

pub fn describe(who: &str, typing: bool) -> String {
    let what = if typing { "types" } else { "stopped" };
    format!("{who} {what}")
}

pub fn describe_all(changes: &[TypingChange]) -> Vec<String> {
    let describe = |it: &TypingChange| describe(it.user_id.as_str(), it.typing);
    changes.iter().map(describe).collect()
}

/// A subscription, and the changes that it received.
pub struct TypingSubscription {
    pub recorder: Arc<TypingRecorder>,
    conversation: ConversationId,
    _subscription: LiveSubscription,
}

impl TypingSubscription {
    /// Waits for everything published until now, and returns the changes since the last call.
    pub async fn changes(&self, world: &TypingWorld) -> Vec<TypingChange> {
        let marker = world.publish_marker(self.conversation.as_str()).await;
        self.changes_until(&marker).await
    }

    /// Waits for this marker, and returns the changes since the last call.
    pub async fn changes_until(&self, marker: &str) -> Vec<TypingChange> {
        self.recorder.wait_for(marker, false).await;
        let changes = self.recorder.take();
        for change in &changes {
            assert_eq!(change.conversation_id, self.conversation);
        }
        changes
    }

    /// As [`changes`](Self::changes), in words: `alice types`, `alice stopped`.
    pub async fn events(&self, world: &TypingWorld) -> Vec<String> {
        describe_all(&self.changes(world).await)
    }
}

/// Subscriber that records the typing changes of a conversation.
#[derive(Default)]
pub struct TypingRecorder {
    changes: Mutex<Vec<TypingChange>>,
    change_received: Notify,
}

impl TypingRecorder {
    /// Takes the changes since the last call, without those of markers.
    pub fn take(&self) -> Vec<TypingChange> {
        let mut changes = mem::take(&mut *self.changes.lock());
        changes.retain(|it| !it.user_id.as_str().starts_with(MARKER));
        changes
    }

    /// Waits until this change is among those that were not taken. Only one task may wait.
    pub async fn wait_for(&self, who: &str, typing: bool) {
        let is_wanted = |it: &TypingChange| it.user_id.as_str() == who && it.typing == typing;
        with_timeout(async {
            while !self.changes.lock().iter().any(is_wanted) {
                self.change_received.notified().await;
            }
        })
        .await;
    }
}

impl ConversationSubscriber for TypingRecorder {
    fn on_event(&self, event: &ConversationEvent<'_>) {
        if let ConversationEvent::TypingChanged(change) = event {
            self.changes.lock().push((*change).clone());
            self.change_received.notify_one();
        }
    }

    fn users(&self) -> Vec<UserId> {
        Vec::new()
    }
}
