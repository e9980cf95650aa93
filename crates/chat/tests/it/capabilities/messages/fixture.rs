//! Nodes on one backend, with a conversation `c1` of Alice (the owner), Bob and Carol.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parlor_chat::Chat;
use parlor_chat::ChatOptions;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::Operation;
use parlor_chat::context::ChatContext;
use parlor_chat::conversations::{ConversationKind, CreateConversation, HistoryVisibility};
use parlor_chat::database::{Database, PerBackend};
use parlor_chat::failpoint::Failpoint;
use parlor_chat::ids::{ConversationId, NodeId, UserId};
use parlor_chat::keys::{KeyLayouts, KeySettings, Keyspace, Preset, RecentLayout};
use parlor_chat::messages::writer::{MessageDraft, MessageWriter};
use parlor_chat::messages::{
    HistoryAnchor, Message, MessageEdit, NewMessage, decode_message_frame,
};
use parlor_store::{BusEvent, BusSubscription};
use parlor_testkit::RedisCluster;
use serde_json::Value;

use crate::support::backend::TestBackend;

/// Runs an expression with the connection of either database.
macro_rules! on_connection {
    ($tx:expr, $connection:ident => $do:expr) => {
        match $tx.connection() {
            PerBackend::Sqlite($connection) => $do,
            PerBackend::Postgres($connection) => $do,
        }
    };
}

pub struct World {
    backend: TestBackend,
    pub keys: Keyspace,
    pub layout: RecentLayout,
    pub options: ChatOptions,
    /// Running nodes.
    pub nodes: Vec<Chat>,
    /// Commits messages without applying them, like a node that dies after every commit.
    crashing_writer: MessageWriter,
    frames: BusSubscription,
    events: BusSubscription,
}

/// A frame that was published in `c1`.
#[derive(Debug, Clone, PartialEq)]
pub enum PublishedFrame {
    Created(u64, Value),
    Changed(u64, u64, Value),
    /// The user, and the end time in ms; 0 if the user stopped.
    Typing(String, u64),
    Other(u8),
}

impl World {
    pub async fn embedded(layout: RecentLayout) -> Self {
        Self::on(TestBackend::embedded().await, layout).await
    }

    pub async fn redis(layout: RecentLayout) -> Self {
        Self::on(TestBackend::redis().await, layout).await
    }

    pub async fn impatient() -> Self {
        Self::on(
            TestBackend::redis_with_short_timeout().await,
            RecentLayout::Messages,
        )
        .await
    }

    pub async fn cluster(cluster: &mut RedisCluster) -> Self {
        Self::on(TestBackend::cluster(cluster).await, RecentLayout::Messages).await
    }

    async fn on(backend: TestBackend, layout: RecentLayout) -> Self {
        let mut layouts = Preset::Parlor.layouts();
        layouts.recent = layout;
        Self::with_layouts(backend, layouts).await
    }

    pub async fn with_layouts(backend: TestBackend, layouts: KeyLayouts) -> Self {
        let mut settings = KeySettings::from_layouts(Preset::Parlor, layouts);
        backend.extend_typing_ttl(&mut settings);
        let keys = backend.keys(settings);
        let bus = backend.store.bus();
        let (channel, created) = (
            keys.conversation_channel(&c1()),
            keys.message_created_events(),
        );
        let frames = bus.subscribe_sharded(channel.as_str());
        let events = bus.subscribe(created.as_str());
        let mut options = ChatOptions::default();
        options.messages.max_messages_per_window = 10_000;
        let mut world = Self {
            frames: frames.await.unwrap(),
            events: events.await.unwrap(),
            crashing_writer: MessageWriter::start(backend.database().await),
            keys,
            layout: layouts.recent,
            options,
            nodes: Vec::new(),
            backend,
        };
        for name in ["n0", "n1"] {
            let node = world.start(name).await;
            world.nodes.push(node);
        }
        world.create("c1", HistoryVisibility::All).await;
        world.nodes[0].outbox().drain().await.unwrap();
        world.frames().await;
        world
    }

    /// Starts another node.
    pub async fn start(&self, name: &str) -> Chat {
        let ctx = ChatContext::new(self.store.clone(), self.keys.clone());
        let database: Database = self.backend.database().await;
        let chat = Chat::new(ctx, database, NodeId::new(name).unwrap(), &self.options);
        chat.start().await.unwrap();
        chat
    }

    /// Starts a node whose tasks stop at a failpoint.
    pub async fn start_with_failpoint(&self, name: &str, failpoint: &Failpoint) -> Chat {
        let ctx = ChatContext::new(self.store.clone(), self.keys.clone());
        let ctx = ctx.with_failpoint(failpoint);
        let database: Database = self.backend.database().await;
        let chat = Chat::new(ctx, database, NodeId::new(name).unwrap(), &self.options);
        chat.start().await.unwrap();
        chat
    }

    /// Creates a conversation of Alice, Bob and Carol.
    pub async fn create(&self, id: &str, history: HistoryVisibility) {
        let wanted = CreateConversation {
            id: Some(id.into()),
            kind: ConversationKind::Group,
            title: None,
            members: vec!["bob".into(), "carol".into()],
            open: Some(true),
            history: Some(history),
            priority: None,
            idempotency_key: None,
        };
        wanted.run(&self.nodes[0], &person("alice")).await.unwrap();
    }

    /// Inserts the rows of conversations `p0`, `p1` and so on, with the members Alice and Bob.
    pub async fn insert_conversations(&self, count: usize) {
        let numbers = "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < $1)";
        let statements = [
            "INSERT INTO conversations (id, kind, created_at, last_at, members_version, member_count)
                SELECT 'p' || n, 'group', 0, 0, 1, 2 FROM numbers",
            "INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version, delivered_seq,
                    read_seq, badge_seq)
                SELECT 'p' || n, who, 'owner', 0, 0, 1, 0, 0, 0
                FROM numbers, (SELECT 'alice' AS who UNION ALL SELECT 'bob') AS users",
        ];
        let count = i32::try_from(count).unwrap();
        let mut tx = self.nodes[0].database().begin().await.unwrap();
        for statement in statements {
            let statement = format!("{numbers} {statement}");
            let statement = sqlx::AssertSqlSafe(statement);
            on_connection!(tx, c => {
                sqlx::query(statement).bind(count).execute(c).await.unwrap();
            });
        }
        tx.commit().await.unwrap();
    }

    /// Sends a message through a node.
    pub async fn send(&self, node: usize, who: &str, content: &str) -> Message {
        let messages = self.nodes[node].messages();
        let sent = messages.send(&person(who), &c1(), text(content)).await;
        sent.unwrap().message
    }

    /// Commits a message without applying it.
    pub async fn commit_without_applying(&self, who: &str, content: &str) -> Message {
        self.commit_with_client_id(who, content, None).await
    }

    /// As [`commit_without_applying`](Self::commit_without_applying), with a client id.
    pub async fn commit_with_client_id(
        &self,
        who: &str,
        content: &str,
        client_id: Option<&str>,
    ) -> Message {
        let at = self.now();
        let draft = MessageDraft {
            id: at.new_uuid_v7(),
            conversation: c1(),
            sender: user(who),
            sender_role: Role::User,
            content: content.into(),
            metadata: None,
            client_id: client_id.map(str::to_owned),
            mentions: Vec::new(),
            at,
        };
        self.crashing_writer.send(draft).await.unwrap().message
    }

    /// Edits a range of rows without publishing the changes.
    pub async fn edit_rows_only(&self, first: i64, last: i64, content: &str) {
        let count = last - first + 1;
        let rev = "UPDATE conversations SET rev = rev + $1 WHERE id = 'c1'";
        let edit = "
            UPDATE messages SET content = $1, edited_at = $2,
                rev = (SELECT rev FROM conversations WHERE id = 'c1') + seq - $3
            WHERE conversation_id = 'c1' AND seq >= $4 AND seq <= $3";
        let now = i64::try_from(self.now().as_millis()).unwrap();
        let mut tx = self.nodes[0].database().begin().await.unwrap();
        on_connection!(tx, c => {
            sqlx::query(rev).bind(count).execute(&mut *c).await.unwrap();
            let edit = sqlx::query(edit).bind(content).bind(now);
            edit.bind(last).bind(first).execute(&mut *c).await.unwrap();
        });
        tx.commit().await.unwrap();
    }

    /// Edits a range of rows with the outbox entries, like a node that dies after the commits.
    pub async fn edit_without_publishing(&self, first: i64, last: i64, content: &str) {
        self.edit_rows_only(first, last, content).await;
        let insert = "
            INSERT INTO outbox (subject, kind, payload, created_at, due_at)
            SELECT 'conversation:c1', 'message_changed', '{\"conversation\":\"c1\",\"seq\":' || seq || '}', $1, $1 + 1000
            FROM messages WHERE conversation_id = 'c1' AND seq >= $2 AND seq <= $3 ORDER BY seq";
        let now = i64::try_from(self.now().as_millis()).unwrap();
        let mut tx = self.nodes[0].database().begin().await.unwrap();
        on_connection!(tx, c => {
            let insert = sqlx::query(insert).bind(now).bind(first).bind(last);
            insert.execute(c).await.unwrap();
        });
        tx.commit().await.unwrap();
    }

    pub async fn edit(
        &self,
        node: usize,
        who: &str,
        seq: u64,
        content: &str,
    ) -> Result<Message, ErrorCode> {
        let edit = MessageEdit {
            content: Some(content.into()),
            metadata: None,
        };
        let messages = self.nodes[node].messages();
        let edited = messages.edit(&person(who), &c1(), seq, edit).await;
        edited.map_err(|error| error.code())
    }

    pub async fn delete(&self, node: usize, who: &str, seq: u64) -> Result<Message, ErrorCode> {
        let messages = self.nodes[node].messages();
        let deleted = messages.delete(&person(who), &c1(), seq).await;
        deleted.map_err(|error| error.code())
    }

    /// Returns the contents of a page, as Bob sees it, and whether there are more messages.
    pub async fn page(&self, node: usize, page: HistoryAnchor, limit: u64) -> (Vec<String>, bool) {
        let messages = self.nodes[node].messages();
        let history = messages
            .history(&c1(), Some(&user("bob")), page, limit)
            .await;
        let history = history.unwrap();
        let seqs: Vec<_> = history.messages.iter().map(|it| it.seq).collect();
        assert!(seqs.windows(2).all(|two| two[0] + 1 == two[1]), "{seqs:?}");
        let contents = history.messages.into_iter().map(|it| it.content);
        (contents.collect(), history.has_more)
    }

    /// Returns the contents of the newest messages.
    pub async fn newest(&self, node: usize) -> Vec<String> {
        self.page(node, HistoryAnchor::Newest, 100).await.0
    }

    /// Returns the entries of the recent list of `c1`.
    pub async fn recent_list(&self) -> Vec<Value> {
        let mut range = redis::cmd("LRANGE");
        range.arg(self.keys.recent_list(&c1())).arg(0).arg(-1);
        let entries: Vec<String> = range.query_async(&mut self.store.clone()).await.unwrap();
        let entries = entries.iter().map(|it| serde_json::from_str(it).unwrap());
        entries.collect()
    }

    /// Returns the watermark of `c1`: `seq`, epoch, revision.
    pub async fn watermark(&self) -> Option<Vec<u64>> {
        let mut get = redis::cmd("GET");
        get.arg(self.keys.apply_watermark(&c1()));
        let value: Option<String> = get.query_async(&mut self.store.clone()).await.unwrap();
        Some(value?.split('|').map(|it| it.parse().unwrap()).collect())
    }

    /// Runs a command that must succeed.
    pub async fn run(&self, command: &redis::Cmd) {
        command.exec_async(&mut self.store.clone()).await.unwrap();
    }

    /// Deletes the watermark and the recent list of `c1`.
    pub async fn delete_applied_state(&self) {
        let mut del = redis::cmd("DEL");
        del.arg(self.keys.apply_watermark(&c1()))
            .arg(self.keys.recent_list(&c1()));
        self.run(&del).await;
    }

    /// Returns the frames that were published in `c1` since the last call.
    pub async fn frames(&mut self) -> Vec<PublishedFrame> {
        let channel = self.keys.conversation_channel(&c1());
        let bus = self.backend.store.bus();
        bus.publish_sharded(channel.as_str(), [1, 255])
            .await
            .unwrap();
        let mut frames = Vec::new();
        loop {
            match &next(&mut self.frames).await[..] {
                [1, 255] => return frames,
                [2, kind @ (3 | 4), body @ ..] => {
                    let (header, json) = decode_message_frame(body).unwrap();
                    let (seq, rev) = (header.seq, header.rev);
                    let message: Value = serde_json::from_slice(json).unwrap();
                    assert_eq!(message["seq"], seq);
                    assert_eq!(message["rev"], rev);
                    frames.push(match kind {
                        3 => PublishedFrame::Created(seq, message),
                        _ => PublishedFrame::Changed(seq, rev, message),
                    });
                }
                [1, 1, body @ ..] => {
                    let (until, body) = body.split_first_chunk().unwrap();
                    let id = &body[1..=usize::from(body[0])];
                    let id = String::from_utf8(id.to_vec()).unwrap();
                    frames.push(PublishedFrame::Typing(id, u64::from_be_bytes(*until)));
                }
                [1, kind, ..] => frames.push(PublishedFrame::Other(*kind)),
                other => panic!("{other:?} is not a frame"),
            }
        }
    }

    /// Returns the `seq` of the messages that were published as new since the last call.
    pub async fn published_seqs(&mut self) -> Vec<u64> {
        let frames = self.frames().await.into_iter();
        let created = frames.filter_map(|frame| match frame {
            PublishedFrame::Created(seq, _) => Some(seq),
            _ => None,
        });
        created.collect()
    }

    /// Returns the events since the last call.
    ///
    /// The servers of a Redis Cluster forward events in no order, so the end marker could arrive first. Therefore the
    /// function waits for `count` events before it publishes the marker.
    pub async fn events(&mut self, count: usize) -> Vec<Value> {
        let read = |event: Vec<u8>| serde_json::from_slice(&event).unwrap();
        let mut events = Vec::new();
        while events.len() < count {
            events.push(read(next(&mut self.events).await));
        }
        let channel = self.keys.message_created_events();
        let bus = self.backend.store.bus();
        bus.publish(channel.as_str(), "end").await.unwrap();
        loop {
            match next(&mut self.events).await {
                end if end == b"end" => return events,
                event => events.push(read(event)),
            }
        }
    }
}

async fn next(subscription: &mut BusSubscription) -> Vec<u8> {
    let patience = Duration::from_secs(60);
    let event = tokio::time::timeout(patience, subscription.next()).await;
    match event.unwrap() {
        Some(BusEvent::Message { payload, .. }) => payload.to_vec(),
        _ => panic!("the subscription ended or lost messages"),
    }
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

pub fn c1() -> ConversationId {
    ConversationId::new("c1").unwrap()
}

pub fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

pub fn person(id: &str) -> Caller {
    Caller {
        user: Some(user(id)),
        name: None,
        role: Role::User,
        anonymous: false,
        issued_at: Some(0),
        expires_at: u64::MAX,
        ip_address: None,
    }
}

pub fn text(content: &str) -> NewMessage {
    NewMessage {
        content: content.into(),
        ..NewMessage::default()
    }
}

impl World {
    /// Sets `member_count` in the row of `c1`.
    pub async fn set_member_count(&self, count: i64) {
        let statement = "UPDATE conversations SET member_count = $1 WHERE id = 'c1'";
        let mut tx = self.nodes[0].database().begin().await.unwrap();
        on_connection!(tx, c => {
            sqlx::query(statement).bind(count).execute(c).await.unwrap();
        });
        tx.commit().await.unwrap();
    }
}

impl World {
    /// Returns the documented unread counter of a user in `c1`.
    pub async fn unread(&self, who: &str) -> String {
        let mut get = redis::cmd("GET");
        get.arg(self.keys.unread(&user(who), &c1()));
        let count: Option<String> = get.query_async(&mut self.store.clone()).await.unwrap();
        count.unwrap_or_default()
    }

    /// Makes the store look like one that was restored from an old snapshot: its watermark is `seq` of another epoch,
    /// and the list ends there.
    pub async fn restore_old_snapshot(&self, epoch: u64, seq: usize) {
        let newest = self
            .recent_list()
            .await
            .first()
            .map_or(0, |it| it["seq"].as_u64().unwrap());
        let mut trim = redis::cmd("LTRIM");
        trim.arg(self.keys.recent_list(&c1()));
        trim.arg(newest.saturating_sub(seq as u64)).arg(-1);
        self.run(&trim).await;
        let mut top = redis::cmd("SET");
        top.arg(self.keys.apply_watermark(&c1()))
            .arg(format!("{seq}|{epoch}|0"));
        self.run(top.arg("EX").arg(3_600)).await;
    }
}
