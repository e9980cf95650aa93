//! The world of messages, with followers in it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::keys::RecentLayout;
use parlor_chat::live::{ConversationNews, ConversationSink, Follow, UserNews, UserSink};
use parlor_testkit::{Cluster, eventually};
use serde_json::Value;

use crate::messages::world::{self as messages, c1, user};

/// More than wait for a reader of the embedded bus.
const FLOOD: usize = 70_000;

pub struct World(messages::World);

impl World {
    pub async fn embedded() -> Self {
        Self(messages::World::embedded(RecentLayout::Messages).await)
    }

    pub async fn redis() -> Self {
        Self(messages::World::redis(RecentLayout::Messages).await)
    }

    pub async fn cluster(cluster: &mut Cluster) -> Self {
        Self(messages::World::cluster(cluster).await)
    }

    /// Somebody who follows `c1` on a node, where it is shown to these users.
    pub async fn follow(&self, node: usize, users: &[&str]) -> (Arc<Heard>, Follow) {
        self.follow_in(node, &c1(), users).await
    }

    pub async fn follow_in(
        &self,
        node: usize,
        conversation: &ConversationId,
        users: &[&str],
    ) -> (Arc<Heard>, Follow) {
        let heard = Arc::new(Heard {
            users: users.iter().map(|it| user(it)).collect(),
            ..Heard::default()
        });
        let sink = Arc::clone(&heard) as Arc<dyn ConversationSink>;
        let follow = self.nodes[node].live().conversation(conversation, sink);
        (heard, follow.await.unwrap())
    }

    /// Somebody who follows a user on a node.
    pub async fn follow_user(&self, node: usize, who: &str) -> (Arc<Heard>, Follow) {
        let heard = Arc::new(Heard::default());
        let sink = Arc::clone(&heard) as Arc<dyn UserSink>;
        let follow = self.nodes[node].live().user(&user(who), sink).await;
        (heard, follow.unwrap())
    }

    /// Makes the bus lose what is on its way: the connections are cut, or their reader is too slow.
    pub async fn lose_bus(&self) {
        if self.primaries.is_empty() {
            let channel = self.keys.conversation_bus(&c1());
            let mut pipe = redis::pipe();
            for _ in 0..FLOOD {
                let publish = self.store.bus().publish_command();
                pipe.cmd(publish)
                    .arg(channel.as_str())
                    .arg(b"\x01\xfe")
                    .ignore();
            }
            pipe.exec_async(&mut self.store.clone()).await.unwrap();
        }
        for primary in &self.primaries {
            let mut connection = parlor_testkit::connect(primary).await.unwrap();
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("TYPE").arg("pubsub");
            kill.exec_async(&mut connection).await.unwrap();
        }
    }

    /// Runs a statement.
    pub async fn statement(&self, statement: &'static str) {
        use parlor_chat::database::Either;
        let mut tx = self.nodes[0].database().begin().await.unwrap();
        match tx.connection() {
            Either::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
            Either::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
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

/// What a follower was told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    Message(u64, Value),
    Changed(u64, u64, bool, Value),
    Delivered(String, u64),
    Read(String, u64),
    Typing(String, bool),
    Members(Vec<String>, Vec<String>),
    Deleted,
    Unread(Value),
    Membership(String, bool),
    Missed,
}

/// One who notes what is told.
#[derive(Default)]
pub struct Heard {
    pub told: Mutex<Vec<Told>>,
    pub users: Vec<UserId>,
    /// What is dropped when the first is told.
    pub follow: Mutex<Option<Follow>>,
}

impl Heard {
    /// What was told so far.
    pub fn all(&self) -> Vec<Told> {
        self.told.lock().clone()
    }

    /// What was told, which is waited for until there is so much.
    pub async fn at_least(&self, count: usize) -> Vec<Told> {
        let enough = async || {
            let told = self.all();
            (told.len() >= count).then_some(told)
        };
        eventually("it is told", enough).await
    }

    /// The numbers of the messages, in the order in which they were told.
    pub fn seqs(&self) -> Vec<u64> {
        let told = self.all().into_iter();
        let seqs = told.filter_map(|it| match it {
            Told::Message(seq, _) => Some(seq),
            _ => None,
        });
        seqs.collect()
    }

    /// Waits until the message was told.
    pub async fn until(&self, seq: u64) {
        let last = async || self.seqs().last() == Some(&seq);
        eventually(&format!("message {seq} is told"), last).await;
    }

    fn note(&self, told: Told) {
        self.told.lock().push(told);
        drop(self.follow.lock().take());
    }
}

impl ConversationSink for Heard {
    fn told(&self, news: &ConversationNews<'_>) {
        let read = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap();
        let names = |users: &[UserId]| users.iter().map(UserId::to_string).collect();
        self.note(match news {
            ConversationNews::Message { seq, rev, json } => {
                assert_eq!(read(json)["rev"], *rev);
                Told::Message(*seq, read(json))
            }
            ConversationNews::Changed {
                seq,
                rev,
                deleted,
                json,
            } => Told::Changed(*seq, *rev, *deleted, read(json)),
            // For those who read it from the rows.
            ConversationNews::Ahead { .. } => return,
            ConversationNews::Receipt {
                delivered,
                read,
                change,
            } => {
                assert_ne!(delivered, read);
                let (receipt, name) = (&change.receipt, change.receipt.user_id.to_string());
                match read {
                    true => Told::Read(name, receipt.read_seq),
                    false => Told::Delivered(name, receipt.delivered_seq),
                }
            }
            ConversationNews::Typing(change) => {
                assert_eq!(change.conversation_id, c1());
                Told::Typing(change.user_id.to_string(), change.typing)
            }
            ConversationNews::Members { joined, left, .. } => {
                Told::Members(names(joined), names(left))
            }
            ConversationNews::Deleted => Told::Deleted,
        });
    }

    fn users(&self) -> Vec<UserId> {
        self.users.clone()
    }
}

impl UserSink for Heard {
    fn told(&self, news: &UserNews<'_>) {
        self.note(match news {
            UserNews::Unread(json) => Told::Unread(serde_json::from_slice(json).unwrap()),
            UserNews::Membership {
                conversation,
                joined,
            } => Told::Membership(conversation.to_string(), *joined),
            UserNews::MaybeMissed => Told::Missed,
        });
    }
}
