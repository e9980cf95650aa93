//! Latency of messages while a conversation with many messages is deleted: the deletion removes its rows in pages, and
//! senders of other conversations share the writer with it.
//!
//! `make bench ONLY="deletion 10000"` deletes a conversation with 10,000 messages; the default is a million.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::{Table, presets};
use futures_util::future::try_join_all;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::api::operation::Operation as _;
use parlor_chat::context::ChatContext;
use parlor_chat::conversations::DeleteConversation;
use parlor_chat::database::{Database, PerBackend};
use parlor_chat::ids::{ConversationId, NodeId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace};
use parlor_chat::messages::NewMessage;
use parlor_chat::{Chat, ChatOptions, MessageOptions};

use super::database_fixture::{self, DatabaseFixture, DatabaseKind};
use super::single_transaction::on_connection;
use crate::measure::format_thousands;
use crate::store_fixture::{Engine, StoreFixture};

const DEFAULT_MESSAGES: u64 = 1_000_000;
const SENDERS: usize = 32;
/// Shortest time of a phase.
const MIN_PHASE: Duration = Duration::from_secs(5);
/// Messages that one statement inserts.
const MESSAGES_PER_INSERT: u64 = 50_000;
/// Limit that no sender reaches.
const UNLIMITED_RATE: u32 = 1_000_000_000;

/// Latencies of the messages of one phase.
struct PhaseLatency {
    sorted: Vec<Duration>,
    wall: Duration,
}

/// Prints the table.
pub fn run() -> anyhow::Result<()> {
    let messages = std::env::args().nth(2).map(|it| it.parse()).transpose();
    let messages = messages.context("the argument of deletion is a number of messages")?;
    let messages = messages.unwrap_or(DEFAULT_MESSAGES);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(compare(messages))
}

async fn compare(messages: u64) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "database",
        "phase",
        "messages/s",
        "p50 ms",
        "p99 ms",
        "max ms",
    ]);
    for kind in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
        let (deleted_in, removed_in) = measure(kind, messages, &mut table).await?;
        println!(
            "{}: the deletion was acknowledged after {} ms, and its rows were removed after {:.1} s.",
            kind.name(),
            deleted_in.as_millis(),
            removed_in.as_secs_f64()
        );
    }
    println!(
        "\n## Messages of {SENDERS} senders while a conversation with {} messages is deleted\n\n{table}\n",
        format_thousands(messages as f64)
    );
    Ok(())
}

/// Measures both phases on one database. Returns the duration of the call, and of the removal of all rows.
async fn measure(
    kind: DatabaseKind,
    messages: u64,
    table: &mut Table,
) -> anyhow::Result<(Duration, Duration)> {
    let rows = DatabaseFixture::open(kind).await?;
    insert_messages(&rows.database, messages).await?;
    let store = StoreFixture::open(Engine::Embedded, None).await?;
    let keys = Keyspace::new(KeySettings::default(), false)?;
    let context = ChatContext::new(store.store.clone(), keys);
    let options = ChatOptions::default();
    let options = ChatOptions {
        messages: MessageOptions {
            max_messages_per_window: UNLIMITED_RATE,
            ..options.messages
        },
        ..options
    };
    let node = NodeId::new("bench")?;
    let chat = Arc::new(Chat::new(context, rows.database.clone(), node, &options));
    chat.start().await?;
    let tasks = chat.start_background_tasks();
    // The first messages extend the write-ahead log, which takes longer than overwriting it.
    send_until_done(&chat, async { Ok(()) }).await?;
    let (without, ()) = send_until_done(&chat, async { Ok(()) }).await?;
    add_row(table, kind, "without a deletion", &without);
    let deletion = delete_and_wait(&chat, &rows.database);
    let (with, times) = send_until_done(&chat, deletion).await?;
    add_row(table, kind, "during the deletion", &with);
    drop(tasks);
    chat.shut_down().await?;
    store.store.close().await;
    Ok(times)
}

fn add_row(table: &mut Table, kind: DatabaseKind, phase: &str, latency: &PhaseLatency) {
    let count = latency.sorted.len();
    let quantile = |percent: usize| {
        let at = (count * percent / 100).min(count.saturating_sub(1));
        let latency = latency.sorted.get(at).copied().unwrap_or_default();
        format!("{:.1}", latency.as_secs_f64() * 1e3)
    };
    table.add_row([
        kind.name().to_owned(),
        phase.to_owned(),
        format_thousands(count as f64 / latency.wall.as_secs_f64()),
        quantile(50),
        quantile(99),
        quantile(100),
    ]);
}

/// Deletes the conversation and waits until its rows are removed. Returns the duration of both.
async fn delete_and_wait(chat: &Chat, database: &Database) -> anyhow::Result<(Duration, Duration)> {
    const COUNT_PENDING: &str =
        "SELECT COUNT(*) FROM deleted_conversations WHERE rows_removed_at IS NULL";
    let start = Instant::now();
    let delete = DeleteConversation {
        conversation_id: "big".to_owned(),
    };
    let service = Caller {
        role: Role::Service,
        anonymous: false,
        ..Caller::unauthenticated(None)
    };
    delete.run(chat, &service).await?;
    let deleted = start.elapsed();
    loop {
        let pending: i64 = match database.reader() {
            PerBackend::Sqlite(pool) => sqlx::query_scalar(COUNT_PENDING).fetch_one(pool).await?,
            PerBackend::Postgres(pool) => sqlx::query_scalar(COUNT_PENDING).fetch_one(pool).await?,
        };
        if pending == 0 {
            return Ok((deleted, start.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends messages until the work is done, at least for [`MIN_PHASE`].
async fn send_until_done<T>(
    chat: &Arc<Chat>,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(PhaseLatency, T)> {
    let (start, is_done) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let senders = (0..SENDERS).map(|number| {
        let (chat, is_done) = (Arc::clone(chat), Arc::clone(&is_done));
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            let conversation = ConversationId::new(database_fixture::conversation(number))?;
            let caller = Caller {
                user: Some(UserId::new(database_fixture::user(number))?),
                anonymous: false,
                ..Caller::unauthenticated(None)
            };
            while !is_done.load(Ordering::Relaxed) || start.elapsed() < MIN_PHASE {
                let new = NewMessage {
                    content: "m".repeat(200),
                    ..NewMessage::default()
                };
                let sent = Instant::now();
                chat.messages().send(&caller, &conversation, new).await?;
                latencies.push(sent.elapsed());
            }
            anyhow::Ok(latencies)
        })
    });
    let senders: Vec<_> = senders.collect();
    let done = work.await;
    is_done.store(true, Ordering::Relaxed);
    let mut sorted = Vec::new();
    for latencies in try_join_all(senders).await? {
        sorted.extend(latencies?);
    }
    sorted.sort_unstable();
    let latency = PhaseLatency {
        sorted,
        wall: start.elapsed(),
    };
    Ok((latency, done?))
}

/// Inserts a conversation with this many messages.
async fn insert_messages(database: &Database, messages: u64) -> anyhow::Result<()> {
    const CONVERSATION: &str = "
        INSERT INTO conversations (id, kind, created_at, last_at, members_version, member_count, last_seq, rev)
        VALUES ('big', 'group', 1, 1, 1, 0, $1, $1)";
    const MESSAGES: &str = "
        WITH RECURSIVE numbers (n) AS (SELECT $1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $2)
        INSERT INTO messages (conversation_id, seq, id, sender_id, sender_role, content, client_id, created_at, rev)
        SELECT 'big', n, 'big-' || n, 'u1', 'user',
            'a message of about two hundred bytes, which is the length of the messages that are sent meanwhile; '
            || 'a shorter message would be removed faster than a usual one, because a page has fewer bytes then', 'b' || n, 1, n
        FROM numbers";
    let last = i64::try_from(messages)?;
    let mut tx = database.begin().await?;
    on_connection!(tx.connection(), c => sqlx::query(CONVERSATION).bind(last).execute(c).await.map(drop))?;
    tx.commit().await?;
    let page = i64::try_from(MESSAGES_PER_INSERT)?;
    let mut first = 1;
    while first <= last {
        let through = last.min(first + page - 1);
        let mut tx = database.begin().await?;
        on_connection!(tx.connection(), c => sqlx::query(MESSAGES).bind(first).bind(through).execute(c).await.map(drop))?;
        tx.commit().await?;
        first = through + 1;
    }
    Ok(())
}
