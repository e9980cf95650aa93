//! Many senders in rooms of ten, as a gateway calls a node: each sender checks its session, sends, and waits for the
//! acknowledgement. Embedded store on disk, SQLite with `synchronous=FULL`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use comfy_table::{Table, presets};
use futures_util::future::try_join_all;
use parlor_chat::Chat;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::context::ChatContext;
use parlor_chat::database::Database;
use parlor_chat::ids::{ConversationId, DeviceId, NodeId, SocketId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace};
use parlor_chat::messages::NewMessage;
use parlor_chat::presence::Device;
use parlor_chat::{ChatOptions, MessageOptions};

use super::database_fixture::{self, DatabaseKind};
use super::single_transaction::on_connection;
use crate::measure::{RunCost, format_thousands, measure_cost, thread_cpu_time};
use crate::store_fixture::{Engine, StoreFixture};

const ROOMS: usize = 100;
const MEMBERS: usize = 10;
const SENDERS: [usize; 3] = [1, 64, 256];
const RUNS: usize = 3;
/// Messages per run, for each number of senders.
const MESSAGES: [u64; 3] = [1_000, 8_000, 16_000];
/// Limit that no sender reaches.
const UNLIMITED_RATE: u32 = 1_000_000_000;

/// Threads whose CPU time is also reported separately.
const REPORTED_THREADS: [&str; 2] = ["parlor-writer", "parlor-store"];

/// Chat with its rooms.
struct ChatFixture {
    chat: Chat,
    store: StoreFixture,
    _rows: database_fixture::DatabaseFixture,
}

/// Prints the costs of connecting and the table of senders.
pub async fn run() -> anyhow::Result<()> {
    let node = Arc::new(ChatFixture::open().await?);
    let ticking = node.chat.start_background_tasks();
    let (begun, connected) = node.connect_all().await?;
    let beaten = node.heartbeat_all()?;
    println!(
        "## Connecting {} users one after the other\n\nnew session: {begun:.1} CPU µs/user, check and connect: \
         {connected:.1}, heartbeat: {beaten:.2}\n",
        ROOMS * MEMBERS
    );
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    node.send_all(64, 5_000).await?;
    let only: Option<usize> = std::env::args().nth(3).and_then(|it| it.parse().ok());
    let wanted = |(senders, _): &(usize, u64)| only.is_none_or(|only| only == *senders);
    for (senders, messages) in SENDERS.into_iter().zip(MESSAGES).filter(wanted) {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(node.measure_once(senders, messages).await?);
        }
        runs.sort_by(|(a, _), (b, _)| a.cpu_micros_per_op().total_cmp(&b.cpu_micros_per_op()));
        let (cost, shares) = runs[RUNS / 2];
        let mut row = vec![
            senders.to_string(),
            format_thousands(cost.ops_per_second()),
            format!("{:.1}", cost.cpu_micros_per_op()),
        ];
        row.extend(shares.map(|share| format!("{share:.1}")));
        table.add_row(row);
    }
    println!(
        "## Durable messages end to end, {ROOMS} rooms of {MEMBERS} members (embedded, SQLite; median of {RUNS} runs)\n\n{table}\n"
    );
    drop(ticking);
    node.chat.shut_down().await?;
    node.store.store.close().await;
    Ok(())
}

const HEADER: [&str; 5] = [
    "senders",
    "messages/s",
    "CPU µs/message",
    "of it thread parlor-writer (database rows)",
    "of it thread parlor-store (store flush)",
];

impl ChatFixture {
    async fn open() -> anyhow::Result<Self> {
        let rows = database_fixture::DatabaseFixture::open(DatabaseKind::Sqlite).await?;
        fill(&rows.database).await?;
        let store = StoreFixture::open(Engine::Embedded, None).await?;
        let options = ChatOptions::default();
        let options = ChatOptions {
            messages: MessageOptions {
                max_messages_per_window: UNLIMITED_RATE,
                ..options.messages
            },
            ..options
        };
        let ctx = ChatContext::new(
            store.store.clone(),
            Keyspace::new(KeySettings::default(), false)?,
        );
        let chat = Chat::new(ctx, rows.database.clone(), NodeId::new("bench")?, &options);
        chat.start().await?;
        Ok(Self {
            chat,
            store,
            _rows: rows,
        })
    }

    /// Begins a session for each user, then checks it and connects a device. Returns the CPU time of both per user, in
    /// microseconds.
    async fn connect_all(&self) -> anyhow::Result<(f64, f64)> {
        let begun = measure_cost(async {
            for user in 0..ROOMS * MEMBERS {
                self.chat.sessions().begin(&caller(user)?, None).await?;
            }
            Ok((ROOMS * MEMBERS) as u64)
        });
        let begun = begun.await?;
        let connected = measure_cost(async {
            for user in 0..ROOMS * MEMBERS {
                self.chat.sessions().check(caller(user)?).await?;
                self.chat.presence().connect(device(user)?).await?;
            }
            Ok((ROOMS * MEMBERS) as u64)
        });
        Ok((
            begun.cpu_micros_per_op(),
            connected.await?.cpu_micros_per_op(),
        ))
    }

    /// Sends several heartbeats for every user. Returns the CPU time of one in this process, in microseconds.
    fn heartbeat_all(&self) -> anyhow::Result<f64> {
        const ROUNDS: usize = 100;
        let devices: Vec<_> = (0..ROOMS * MEMBERS).map(device).collect::<Result<_, _>>()?;
        let before = crate::measure::cpu_time();
        for _ in 0..ROUNDS {
            for device in &devices {
                self.chat.presence().heartbeat(device)?;
            }
        }
        let spent = crate::measure::cpu_time() - before;
        Ok(spent.as_secs_f64() * 1e6 / (ROUNDS * devices.len()) as f64)
    }

    async fn measure_once(
        self: &Arc<Self>,
        senders: usize,
        messages: u64,
    ) -> anyhow::Result<(RunCost, [f64; 2])> {
        let shares = || REPORTED_THREADS.map(|name| thread_cpu_time(name).unwrap_or_default());
        let before = shares();
        let cost = measure_cost(self.send_all(senders, messages)).await?;
        let after = shares();
        let share = |at: usize| (after[at] - before[at]).as_secs_f64() * 1e6 / messages as f64;
        Ok((cost, [share(0), share(1)]))
    }

    /// Sends this many messages with this many senders.
    async fn send_all(self: &Arc<Self>, senders: usize, messages: u64) -> anyhow::Result<u64> {
        let left = Arc::new(AtomicU64::new(0));
        let sender = |number: usize| {
            let (node, left) = (Arc::clone(self), Arc::clone(&left));
            async move {
                let caller = caller(number % ROOMS * MEMBERS + number / ROOMS)?;
                let room = room(number % ROOMS)?;
                while left.fetch_add(1, Ordering::Relaxed) < messages {
                    let caller = node.chat.sessions().check(caller.clone()).await?;
                    let new = NewMessage {
                        content: "m".repeat(200),
                        ..NewMessage::default()
                    };
                    node.chat.messages().send(&caller, &room, new).await?;
                }
                anyhow::Ok(())
            }
        };
        let tasks = (0..senders).map(|number| tokio::spawn(sender(number)));
        for done in try_join_all(tasks).await? {
            done?;
        }
        Ok(messages)
    }
}

fn room(number: usize) -> anyhow::Result<ConversationId> {
    Ok(ConversationId::new(format!("room-of-ten-{number}"))?)
}

/// Name of a user, numbered across all rooms; each room has ten consecutive users.
fn user(number: usize) -> String {
    format!("user-{}", number % (ROOMS * MEMBERS))
}

fn device(number: usize) -> anyhow::Result<Device> {
    Ok(Device {
        user: UserId::new(user(number))?,
        id: DeviceId::new(format!("device-{number}"))?,
        socket: Some(SocketId::new(format!("socket-{number}-0123456789"))?),
        client_info: None,
    })
}

fn caller(number: usize) -> anyhow::Result<Caller> {
    Ok(Caller {
        user: Some(UserId::new(user(number))?),
        name: None,
        role: Role::User,
        anonymous: false,
        issued_at: Some(1_700_000_000_000),
        expires_at: u64::MAX,
        ip_address: None,
    })
}

async fn fill(database: &Database) -> anyhow::Result<()> {
    const CONVERSATION: &str = "
        INSERT INTO conversations (id, kind, created_at, last_at, members_version, member_count)
        VALUES ($1, 'group', 1, 1, 1, $2)";
    const MEMBER: &str = "
        INSERT INTO members (conversation_id, user_id, role, joined_at, joined_seq, joined_version,
                             delivered_seq, read_seq, badge_seq)
        VALUES ($1, $2, 'member', 1, 0, 1, 0, 0, 0)";
    let count = i64::try_from(MEMBERS)?;
    let mut tx = database.begin().await?;
    for number in 0..ROOMS {
        let id = room(number)?.to_string();
        on_connection!(tx.connection(), c => sqlx::query(CONVERSATION).bind(&id).bind(count).execute(c).await.map(drop))?;
        for member in 0..MEMBERS {
            let user = user(number * MEMBERS + member);
            on_connection!(tx.connection(), c => sqlx::query(MEMBER).bind(&id).bind(user).execute(c).await.map(drop))?;
        }
    }
    tx.commit().await?;
    Ok(())
}
