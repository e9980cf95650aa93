//! Chat with rooms of several sizes, on a store and a database.

use std::sync::Arc;

use anyhow::Context as _;
use parlor_chat::Chat;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::context::ChatContext;
use parlor_chat::database::Database;
use parlor_chat::ids::{ConversationId, NodeId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace};
use parlor_chat::messages::{Messages, NewMessage};
use parlor_chat::{ChatOptions, MessageOptions};

use super::database_fixture::{self, DatabaseKind};
use super::single_transaction::on_connection;
use crate::store_fixture::{Engine, StoreFixture};

/// Limit that no sender reaches.
const RATE: u32 = 1_000_000_000;

/// Chat with its store and database.
pub struct RoomsFixture {
    pub chat: Chat,
    pub store: StoreFixture,
    pub rows: database_fixture::DatabaseFixture,
}

/// Work that Redis and PostgreSQL have done so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackendUsage {
    /// CPU time of Redis and PostgreSQL, in seconds.
    pub cpu: f64,
    /// Scripts that Redis has run for clients.
    pub scripts: f64,
    /// Reads of Redis from its connections: one per round trip, several for a long request; concurrent requests may
    /// share one.
    pub reads: f64,
    /// Commands, including those in scripts.
    pub commands: f64,
    /// Bytes that Redis has received.
    pub bytes: f64,
}

impl RoomsFixture {
    /// Opens a chat on this database and the store that goes with it, with one room per size.
    pub async fn open(kind: DatabaseKind, sizes: &[usize]) -> anyhow::Result<Self> {
        let rows = database_fixture::DatabaseFixture::open(kind).await?;
        for &size in sizes {
            fill(&rows.database, size).await?;
        }
        let engine = match kind {
            DatabaseKind::Sqlite => Engine::Embedded,
            DatabaseKind::Postgres => Engine::Redis,
        };
        let store = StoreFixture::open(engine, None).await?;
        let keys = Keyspace::new(KeySettings::default(), false)?;
        let options = ChatOptions::default();
        let options = ChatOptions {
            messages: MessageOptions {
                max_messages_per_window: RATE,
                ..options.messages
            },
            ..options
        };
        let ctx = ChatContext::new(store.store.clone(), keys);
        let node = NodeId::new("bench")?;
        let chat = Chat::new(ctx, rows.database.clone(), node, &options);
        chat.start().await?;
        Ok(Self { chat, store, rows })
    }

    pub fn name(&self) -> String {
        format!("{}, {}", self.store.engine.name(), self.rows.kind.name())
    }

    pub fn messages(&self) -> &Arc<Messages> {
        self.chat.messages()
    }

    /// Sends a message to the room of this size. Returns its sequence number.
    pub async fn send(&self, size: usize) -> anyhow::Result<u64> {
        let new = NewMessage {
            content: "m".repeat(200),
            ..NewMessage::default()
        };
        let sent = self.messages().send(&caller()?, &room(size)?, new).await?;
        Ok(sent.message.seq)
    }

    /// Work that the servers have done so far.
    pub async fn backend_usage(&self) -> anyhow::Result<BackendUsage> {
        if self.store.engine == Engine::Embedded {
            return Ok(BackendUsage::default());
        }
        let calls = self.store.info_text("commandstats", "cmdstat_evalsha");
        let calls = calls.await?;
        let calls = calls
            .split(',')
            .find_map(|part| part.strip_prefix("calls="));
        let stat = async |field: &str| self.store.info("stats", field).await;
        Ok(BackendUsage {
            cpu: self.rows.server_cpu()?.as_secs_f64() + self.store.usage().await?.server,
            scripts: calls.context("INFO commandstats has no calls")?.parse()?,
            reads: stat("total_reads_processed").await?,
            commands: stat("total_commands_processed").await?,
            bytes: stat("total_net_input_bytes").await?,
        })
    }

    pub async fn close(self) -> anyhow::Result<()> {
        self.chat.shut_down().await?;
        self.store.store.close().await;
        Ok(())
    }
}

/// The sender; a member of every room.
pub fn sender() -> anyhow::Result<UserId> {
    Ok(UserId::new(member(0))?)
}

pub fn room(size: usize) -> anyhow::Result<ConversationId> {
    Ok(ConversationId::new(format!("room{size}"))?)
}

fn member(number: usize) -> String {
    format!("member{number}")
}

fn caller() -> anyhow::Result<Caller> {
    Ok(Caller {
        user: Some(sender()?),
        name: None,
        role: Role::User,
        anonymous: false,
        issued_at: None,
        expires_at: u64::MAX,
        ip_address: None,
    })
}

async fn fill(database: &Database, size: usize) -> anyhow::Result<()> {
    const CONVERSATION: &str = "
        INSERT INTO conversations (id, kind, created_at, last_at, members_version, member_count)
        VALUES ($1, 'group', 1, 1, 1, $2)";
    const MEMBER: &str = "
        INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version,
                             delivered_seq, read_seq, badge_seq)
        VALUES ($1, $2, 'member', 1, 0, 1, 0, 0, 0)";
    let (id, count) = (room(size)?.to_string(), i64::try_from(size)?);
    let mut tx = database.begin().await?;
    on_connection!(tx.connection(), c => sqlx::query(CONVERSATION).bind(&id).bind(count).execute(c).await.map(drop))?;
    for number in 0..size {
        on_connection!(tx.connection(), c => sqlx::query(MEMBER).bind(&id).bind(member(number)).execute(c).await.map(drop))?;
    }
    tx.commit().await?;
    Ok(())
}
