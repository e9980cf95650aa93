//! The fixture of the message tests, with subscribers.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::Chat;
use parlor_chat::context::ChatContext;
use parlor_chat::conversations::MemberChange;
use parlor_chat::ids::{ConversationId, NodeId, UserId};
use parlor_chat::keys::{Preset, RecentLayout, TypingLayout};
use parlor_chat::live::{
    ConversationEvent, ConversationSubscriber, LiveSubscription, UserEvent, UserSubscriber,
};
use parlor_chat::unread::ReceiptKind;
use parlor_store::{ManualClock, Store, StoreOptions};
use parlor_testkit::{RedisCluster, eventually};
use serde_json::Value;

use crate::capabilities::messages::fixture::{self as messages, c1, user};
use crate::support::backend::{TestBackend, options_with_long_timeout};

/// More messages than the embedded bus buffers for a slow reader.
const BUS_OVERFLOW_MESSAGES: usize = 70_000;

pub struct World(messages::World);

impl World {
    pub async fn embedded() -> Self {
        Self(messages::World::embedded(RecentLayout::Messages).await)
    }

    pub async fn redis() -> Self {
        Self(messages::World::redis(RecentLayout::Messages).await)
    }

    pub async fn redis_with_short_timeout() -> Self {
        Self(messages::World::impatient().await)
    }

    pub async fn cluster(cluster: &mut RedisCluster) -> Self {
        Self(messages::World::cluster(cluster).await)
    }

    /// Starts a node with a bus of its own; the other nodes of a world share one.
    pub async fn start_with_own_store(&self, name: &str) -> Chat {
        let options = options_with_long_timeout(self.url.as_ref().unwrap());
        let options = StoreOptions {
            clock: Some(ManualClock::default()),
            request_timeout: Duration::from_secs(10),
            ..options
        };
        let store = Store::open(options).await.unwrap();
        let ctx = ChatContext::new(store, self.keys.clone());
        let node = NodeId::new(name).unwrap();
        let chat = Chat::new(ctx, self.database().await, node, &self.options);
        chat.start().await.unwrap();
        chat
    }

    pub async fn with_typing_layout(backend: TestBackend, layout: TypingLayout) -> Self {
        let mut layouts = Preset::Parlor.layouts();
        layouts.recent = RecentLayout::Messages;
        layouts.typing = layout;
        Self(messages::World::with_layouts(backend, layouts).await)
    }

    /// Subscribes to `c1` on a node that shows the conversation to these users.
    pub async fn subscribe(
        &self,
        node: usize,
        users: &[&str],
    ) -> (Arc<RecordingSubscriber>, LiveSubscription) {
        self.subscribe_to(node, &c1(), users).await
    }

    pub async fn subscribe_to(
        &self,
        node: usize,
        conversation: &ConversationId,
        users: &[&str],
    ) -> (Arc<RecordingSubscriber>, LiveSubscription) {
        let subscriber = Arc::new(RecordingSubscriber {
            users: users.iter().map(|it| user(it)).collect(),
            ..RecordingSubscriber::default()
        });
        let listener = Arc::clone(&subscriber) as Arc<dyn ConversationSubscriber>;
        let subscription = self.nodes[node].live().conversation(conversation, listener);
        (subscriber, subscription.await.unwrap())
    }

    /// Subscribes to a user on a node.
    pub async fn subscribe_to_user(
        &self,
        node: usize,
        who: &str,
    ) -> (Arc<RecordingSubscriber>, LiveSubscription) {
        let subscriber = Arc::new(RecordingSubscriber::default());
        let listener = Arc::clone(&subscriber) as Arc<dyn UserSubscriber>;
        let subscription = self.nodes[node].live().user(&user(who), listener).await;
        (subscriber, subscription.unwrap())
    }

    /// Makes the bus lose messages: cuts its connections, or overflows the buffer of the embedded bus.
    pub async fn drop_bus_messages(&self) {
        if self.primaries.is_empty() {
            let channel = self.keys.conversation_channel(&c1());
            let mut pipe = redis::pipe();
            for _ in 0..BUS_OVERFLOW_MESSAGES {
                let publish = self.store.bus().publish_command();
                pipe.cmd(publish)
                    .arg(channel.as_str())
                    .arg(b"\x01\xfe")
                    .ignore();
            }
            pipe.exec_async(&mut self.store.clone()).await.unwrap();
        }
        for primary in &self.primaries {
            let mut connection = parlor_testkit::connect_with_test_timeout(primary)
                .await
                .unwrap();
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("TYPE").arg("pubsub");
            kill.exec_async(&mut connection).await.unwrap();
        }
    }

    /// Runs a statement.
    pub async fn execute_sql(&self, statement: &'static str) {
        use parlor_chat::database::PerBackend;
        let mut tx = self.nodes[0].database().begin().await.unwrap();
        match tx.connection() {
            PerBackend::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
            PerBackend::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        }
        tx.commit().await.unwrap();
    }
}

impl Deref for World {
    type Target = messages::World;

    fn deref(&self) -> &messages::World {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut messages::World {
        &mut self.0
    }
}

/// An event that a subscriber received.
#[derive(Debug, Clone, PartialEq)]
pub enum ReceivedEvent {
    Message(u64, Value),
    Changed(u64, u64, bool, Value),
    Delivered(String, u64),
    Read(String, u64),
    Typing(String, bool),
    Members {
        joined: Vec<String>,
        left: Vec<String>,
        role_changed: Vec<String>,
    },
    Updated(Value),
    Deleted,
    Unread(Value),
    Membership(String, bool),
    Missed,
}

impl ReceivedEvent {
    /// The event that these users joined and left.
    pub fn members(joined: &[&str], left: &[&str]) -> Self {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self::Members {
            joined: names(joined),
            left: names(left),
            role_changed: Vec::new(),
        }
    }
}

/// Subscriber that records its events.
#[derive(Default)]
pub struct RecordingSubscriber {
    pub events: Mutex<Vec<ReceivedEvent>>,
    pub users: Vec<UserId>,
    /// Subscription that is dropped at the first event.
    pub drop_on_first_event: Mutex<Option<LiveSubscription>>,
}

impl RecordingSubscriber {
    /// Returns the events received so far.
    pub fn all(&self) -> Vec<ReceivedEvent> {
        self.events.lock().clone()
    }

    /// Waits for this number of events, and returns the events.
    pub async fn wait_for_events(&self, count: usize) -> Vec<ReceivedEvent> {
        let enough = async || {
            let events = self.all();
            (events.len() >= count).then_some(events)
        };
        eventually("the events are received", enough).await
    }

    /// Returns the `seq` of the received messages, in the order of their delivery.
    pub fn seqs(&self) -> Vec<u64> {
        let events = self.all().into_iter();
        let seqs = events.filter_map(|it| match it {
            ReceivedEvent::Message(seq, _) => Some(seq),
            _ => None,
        });
        seqs.collect()
    }

    /// Waits until this message is the last one received.
    pub async fn wait_for_seq(&self, seq: u64) {
        let last = async || self.seqs().last() == Some(&seq);
        eventually(&format!("message {seq} is received"), last).await;
    }

    fn record(&self, event: ReceivedEvent) {
        self.events.lock().push(event);
        drop(self.drop_on_first_event.lock().take());
    }
}

impl ConversationSubscriber for RecordingSubscriber {
    fn on_event(&self, event: &ConversationEvent<'_>) {
        let read = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap();
        self.record(match event {
            ConversationEvent::MessageCreated { seq, rev, json } => {
                assert_eq!(read(json)["rev"], *rev);
                ReceivedEvent::Message(*seq, read(json))
            }
            ConversationEvent::MessageChanged {
                seq,
                rev,
                deleted,
                json,
            } => ReceivedEvent::Changed(*seq, *rev, *deleted, read(json)),
            // Meant for clients that loaded the message from the history.
            ConversationEvent::UndeliveredMessageChanged { .. } => return,
            ConversationEvent::ReceiptMoved(change) => {
                let (receipt, name) = (&change.receipt, change.receipt.user_id.to_string());
                match change.moved {
                    ReceiptKind::Read => ReceivedEvent::Read(name, receipt.read_seq),
                    ReceiptKind::Delivered => ReceivedEvent::Delivered(name, receipt.delivered_seq),
                }
            }
            ConversationEvent::TypingChanged(change) => {
                assert_eq!(change.conversation_id, c1());
                ReceivedEvent::Typing(change.user_id.to_string(), change.typing)
            }
            ConversationEvent::MembersChanged { members, .. } => {
                let names = |matches: fn(&MemberChange) -> bool| {
                    let members = members.iter().filter(|it| matches(it));
                    members.map(|it| it.user_id.to_string()).collect()
                };
                ReceivedEvent::Members {
                    joined: names(|it| it.joined),
                    left: names(|it| it.role.is_none()),
                    role_changed: names(|it| it.role.is_some() && !it.joined),
                }
            }
            ConversationEvent::ConversationUpdated { json } => ReceivedEvent::Updated(read(json)),
            ConversationEvent::ConversationDeleted => ReceivedEvent::Deleted,
        });
    }

    fn users(&self) -> Vec<UserId> {
        self.users.clone()
    }
}

impl UserSubscriber for RecordingSubscriber {
    fn on_event(&self, event: &UserEvent<'_>) {
        self.record(match event {
            UserEvent::UnreadChanged(json) => {
                ReceivedEvent::Unread(serde_json::from_slice(json).unwrap())
            }
            UserEvent::MembershipChanged {
                conversation,
                joined,
            } => ReceivedEvent::Membership(conversation.to_string(), *joined),
            UserEvent::ConversationUpdated { json, .. } => {
                ReceivedEvent::Updated(serde_json::from_slice(json).unwrap())
            }
            UserEvent::EventsMaybeLost => ReceivedEvent::Missed,
        });
    }
}
