//! A store and a database with two nodes, and statements that insert conversations, members and messages into the rows.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parlor_chat::api::error::Result;
use parlor_chat::context::ChatContext;
use parlor_chat::database::{Database, PerBackend};
use parlor_chat::ids::{ConversationId, NodeId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace, Preset};
use parlor_chat::unread::{CountedMessages, SenderPosition, Unread};
use parlor_chat::{Chat, ChatOptions};
use parlor_store::{BusEvent, BusSubscription};
use parlor_testkit::RedisCluster;

use crate::support::backend::TestBackend;

/// Fan-out limit of the tests.
pub const FANOUT_LIMIT: u64 = 3;

/// Runs a statement on either database.
macro_rules! sql {
    ($tx:expr, $c:ident => $body:expr) => {
        match $tx.connection() {
            PerBackend::Sqlite($c) => $body,
            PerBackend::Postgres($c) => $body,
        }
    };
}

pub struct World {
    backend: TestBackend,
    pub keys: Keyspace,
    pub database: Database,
    /// Nodes of the cluster.
    pub nodes: Vec<Arc<Unread>>,
    chats: Vec<Chat>,
}

/// A message in the rows.
#[derive(Debug, Clone)]
pub struct MessageInRows {
    pub conversation: ConversationId,
    pub sender: UserId,
    pub seq: u64,
    pub members: Vec<UserId>,
    pub members_version: u64,
    pub position: (u64, u64),
}

/// A change of members in the rows.
#[derive(Debug, Clone, Copy)]
pub struct MemberChangeInRows {
    pub members_version: u64,
    pub last_seq: u64,
}

impl World {
    pub async fn embedded() -> Self {
        Self::on(TestBackend::embedded().await).await
    }

    pub async fn redis() -> Self {
        Self::on(TestBackend::redis().await).await
    }

    pub async fn cluster(cluster: &mut RedisCluster) -> Self {
        Self::on(TestBackend::cluster(cluster).await).await
    }

    pub async fn impatient() -> Self {
        Self::on(TestBackend::redis_with_short_timeout().await).await
    }

    async fn on(backend: TestBackend) -> Self {
        let keys = backend.keys(KeySettings::from_preset(Preset::Parlor));
        let mut world = Self {
            database: backend.database().await,
            keys,
            nodes: Vec::new(),
            chats: Vec::new(),
            backend,
        };
        for name in ["n0", "n1"] {
            let chat = world.start(name).await;
            world.nodes.push(Arc::clone(chat.unread()));
            world.chats.push(chat);
        }
        world
    }

    /// Starts another node.
    async fn start(&self, name: &str) -> Chat {
        let context = ChatContext::new(self.store.clone(), self.keys.clone());
        let options = ChatOptions {
            fanout_limit: FANOUT_LIMIT,
            ..ChatOptions::default()
        };
        let node = NodeId::new(name).unwrap();
        Chat::new(context, self.backend.database().await, node, &options)
    }

    /// Applies the entries of the outbox on the first node.
    pub async fn drain_outbox(&self) -> Result<usize> {
        self.chats[0].outbox().drain().await
    }

    pub fn node(&self) -> &Unread {
        &self.nodes[0]
    }

    /// Creates a conversation with these members, in the rows and in the store.
    pub async fn group(&self, conv: &str, members: &[&str]) {
        self.insert_conversation(conv).await;
        for member in members {
            self.join(conv, member).await;
        }
    }

    pub async fn insert_conversation(&self, conv: &str) {
        let insert =
            "INSERT INTO conversations (id, kind, created_at, last_at) VALUES ($1, 'group', 0, 0)";
        let mut tx = self.database.begin().await.unwrap();
        sql!(tx, c => drop(sqlx::query(insert).bind(conv).execute(c).await.unwrap()));
        tx.commit().await.unwrap();
    }

    pub async fn join(&self, conv: &str, who: &str) {
        let changed = self.insert_member(conv, who).await;
        let (conv, users) = (conversation(conv), [user(who)]);
        let (version, last) = (changed.members_version, changed.last_seq);
        let added = self.node().add_members(&conv, &users, version, last);
        added.await.unwrap();
    }

    pub async fn leave(&self, conv: &str, who: &str) {
        let changed = self.delete_member(conv, who).await;
        let (conv, users) = (conversation(conv), [user(who)]);
        let removed = self
            .node()
            .remove_members(&conv, &users, changed.members_version);
        removed.await.unwrap();
    }

    pub async fn insert_member(&self, conv: &str, who: &str) -> MemberChangeInRows {
        let mut tx = self.database.begin().await.unwrap();
        let (version, last) = changed(&mut tx, conv, 1).await;
        let insert = "INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version, \
            delivered_seq, read_seq, badge_seq) VALUES ($1, $2, 'member', 0, $3, $4, 0, 0, $3)";
        sql!(tx, c => drop(sqlx::query(insert).bind(conv).bind(who).bind(last).bind(version).execute(c).await.unwrap()));
        tx.commit().await.unwrap();
        MemberChangeInRows::of(version, last)
    }

    pub async fn delete_member(&self, conv: &str, who: &str) -> MemberChangeInRows {
        let mut tx = self.database.begin().await.unwrap();
        let (version, last) = changed(&mut tx, conv, -1).await;
        let delete = "DELETE FROM members WHERE conversation_id = $1 AND user_id = $2";
        sql!(tx, c => drop(sqlx::query(delete).bind(conv).bind(who).execute(c).await.unwrap()));
        tx.commit().await.unwrap();
        MemberChangeInRows::of(version, last)
    }

    /// Sends a message: inserts its row and updates the counters.
    pub async fn send(&self, conv: &str, sender: &str) -> u64 {
        let written = self.insert_message(conv, sender, &[]).await;
        self.count_message(0, &written).await;
        written.seq
    }

    /// Inserts the row of a message, as the message writer does.
    pub async fn insert_message(
        &self,
        conv: &str,
        sender: &str,
        mentions: &[&str],
    ) -> MessageInRows {
        let mut tx = self.database.begin().await.unwrap();
        let number = "UPDATE conversations SET last_seq = last_seq + 1, rev = rev + 1 WHERE id = $1 \
            RETURNING last_seq, members_version, rev";
        let (seq, version, rev): (i64, i64, i64) =
            sql!(tx, c => sqlx::query_as(number).bind(conv).fetch_one(c).await.unwrap());
        let insert = "INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, created_at, rev) \
            VALUES ($1, $2, $3, $4, 'user', 'x', 0, $5)";
        let id = format!("{conv}-{seq}");
        sql!(tx, c => drop(sqlx::query(insert).bind(conv).bind(seq).bind(&id).bind(sender).bind(rev).execute(c).await.unwrap()));
        for mentioned in mentions {
            let insert = "INSERT INTO mentions (user_id, conversation_id, seq) VALUES ($1, $2, $3)";
            sql!(tx, c => drop(sqlx::query(insert).bind(*mentioned).bind(conv).bind(seq).execute(c).await.unwrap()));
        }
        let position = "UPDATE members SET badge_seq = $1, read_seq = $1, delivered_seq = $1, own_after = 0, \
            position_version = position_version + 1 WHERE conversation_id = $2 AND user_id = $3 \
            RETURNING joined_version, position_version";
        let (joined, place): (i64, i64) = sql!(tx, c =>
            sqlx::query_as(position).bind(seq).bind(conv).bind(sender).fetch_one(c).await.unwrap());
        let list = "SELECT user_id FROM members WHERE conversation_id = $1";
        let members: Vec<(String,)> =
            sql!(tx, c => sqlx::query_as(list).bind(conv).fetch_all(c).await.unwrap());
        tx.commit().await.unwrap();
        MessageInRows {
            conversation: conversation(conv),
            sender: user(sender),
            seq: seq.unsigned_abs(),
            members: members.iter().map(|(member,)| user(member)).collect(),
            members_version: version.unsigned_abs(),
            position: (joined.unsigned_abs(), place.unsigned_abs()),
        }
    }

    /// Updates the counters after the row of a message was inserted.
    pub async fn count_message(&self, node: usize, written: &MessageInRows) {
        count_message(&self.nodes[node], written).await;
    }

    /// Reads the documented keys of a user: conversations and `total`, without missing keys.
    pub async fn stored_counts(&self, who: &str, convs: &[&str]) -> BTreeMap<String, u64> {
        let who = user(who);
        let mut store = self.store.clone();
        let mut stored = BTreeMap::new();
        let total = ("total".to_owned(), self.keys.unread_total(&who));
        let convs = convs.iter().map(|conv| {
            (
                (*conv).to_owned(),
                self.keys.unread(&who, &conversation(conv)),
            )
        });
        for (name, key) in convs.chain([total]) {
            let get = redis::cmd("GET").arg(key).take();
            let number: Option<u64> = get.query_async(&mut store).await.unwrap();
            stored.extend(number.map(|number| (name, number)));
        }
        stored
    }

    /// Reads the counts from the API, in the form of the keys; the total is absent if it is 0.
    pub async fn api_counts(&self, who: &str) -> BTreeMap<String, u64> {
        let counts = self.node().get_summary(&user(who)).await.unwrap();
        let each = counts.conversations.iter();
        let mut frames: BTreeMap<String, u64> = each
            .map(|it| (it.conversation_id.to_string(), it.count))
            .collect();
        if counts.total > 0 {
            frames.insert("total".into(), counts.total);
        }
        frames
    }

    pub async fn frames(&self, who: &str) -> BusSubscription {
        let channel = self.keys.user_channel(&user(who));
        let bus = self.store.bus();
        bus.subscribe_sharded(channel.as_str()).await.unwrap()
    }

    /// Deletes all keys, as a restart without persistence does.
    pub async fn flush_store(&self) {
        let flush = redis::cmd("FLUSHALL");
        for (_, reply) in self.store.query_each_primary(&flush).await {
            reply.unwrap();
        }
    }
}

/// Waits for the next frame; returns its kind and its JSON.
pub async fn next(frames: &mut BusSubscription) -> (u8, serde_json::Value) {
    let patience = std::time::Duration::from_secs(60);
    let event = tokio::time::timeout(patience, frames.next()).await.unwrap();
    let Some(BusEvent::Message { payload, .. }) = event else {
        panic!("the subscription ended or lost messages");
    };
    let [1, kind, body @ ..] = &payload[..] else {
        panic!("{payload:?} is no frame");
    };
    (*kind, serde_json::from_slice(body).unwrap())
}

pub async fn count_message(node: &Unread, written: &MessageInRows) {
    apply_messages(node, std::slice::from_ref(written)).await;
}

/// Updates the counters after a commit with these messages of one conversation.
pub async fn apply_messages(node: &Unread, written: &[MessageInRows]) {
    let last = written.last().unwrap();
    let few = last.members.len() as u64 <= FANOUT_LIMIT;
    let wrote = written.iter().map(|it| SenderPosition {
        user: it.sender.clone(),
        seq: it.seq,
        joined_version: it.position.0,
        position_version: it.position.1,
    });
    let sent = CountedMessages {
        conversation: &last.conversation,
        seq: last.seq,
        sender_positions: &wrote.collect::<Vec<_>>(),
        members: few.then_some(&last.members[..]),
        members_version: last.members_version,
    };
    node.count_messages(&sent).await.unwrap();
}

impl MemberChangeInRows {
    fn of(version: i64, last: i64) -> Self {
        Self {
            members_version: version.unsigned_abs(),
            last_seq: last.unsigned_abs(),
        }
    }
}

async fn changed(
    tx: &mut parlor_chat::database::WriteTransaction,
    conv: &str,
    more: i64,
) -> (i64, i64) {
    let change = "UPDATE conversations SET members_version = members_version + 1, member_count = member_count + $1 \
        WHERE id = $2 RETURNING members_version, last_seq";
    sql!(tx, c => sqlx::query_as(change).bind(more).bind(conv).fetch_one(c).await.unwrap())
}

impl Deref for World {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.backend
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut TestBackend {
        &mut self.backend
    }
}

pub fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

pub fn conversation(id: &str) -> ConversationId {
    ConversationId::new(id).unwrap()
}

/// A map of keys and numbers to compare with.
pub fn map(entries: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let entries = entries.iter();
    entries
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}
