//! Acknowledged durable messages per second: group commit compared with one transaction per message, on SQLite and
//! PostgreSQL. Then the cost of a message end to end, by room size, and of a page of history.
//!
//! Both strategies do the same work per message: look up the client id, read the membership, assign the sequence
//! number, insert the row, move the sender's read position. `make bench ONLY="messages 64"` measures the strategies
//! with 64 senders only, `ONLY="messages 0"` end to end only, `ONLY="messages many"` many senders end to end.

mod chat_fixture;
mod database_fixture;
pub mod deletion;
mod end_to_end;
mod many_senders;
mod single_transaction;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::{Table, presets};
use futures_util::future::try_join_all;
use parlor_chat::api::caller::Role;
use parlor_chat::clock::Timestamp;
use parlor_chat::database::Database;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::messages::writer::{MessageDraft, MessageWriter};

use self::database_fixture::{DatabaseFixture, DatabaseKind};
use crate::measure::{format_thousands, measure_cost};

const RUN: Duration = Duration::from_millis(700);
const RUNS: usize = 3;
const SENDERS: [usize; 4] = [1, 10, 64, 100];

/// Strategy to write messages.
#[derive(Clone)]
enum WriteStrategy {
    /// One transaction per message.
    OneTransactionEach(Database),
    /// One commit for all queued messages.
    GroupCommit(Arc<MessageWriter>),
}

impl WriteStrategy {
    async fn send(&self, draft: MessageDraft) -> anyhow::Result<()> {
        match self {
            Self::OneTransactionEach(database) => {
                single_transaction::send_in_transaction(database, draft).await?;
            }
            Self::GroupCommit(writer) => drop(writer.send(draft).await?),
        }
        Ok(())
    }
}

/// Cost of a run.
#[derive(Clone, Copy)]
struct WriteCost {
    rate: f64,
    /// CPU time per message of this process, in microseconds; `server` is that of the database server.
    cpu: f64,
    server: f64,
}

/// Prints the tables.
pub fn run() -> anyhow::Result<()> {
    let only = std::env::args().nth(2);
    let many = only.as_deref() == Some("many");
    let only = only.filter(|_| !many).map(|it| it.parse()).transpose();
    let only = only.context("the argument of messages is `many` or a number of senders")?;
    anyhow::ensure!(
        only.is_none_or(|senders| senders <= database_fixture::USERS),
        "use 1 to {} senders, or 0 to measure end to end only",
        database_fixture::USERS
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match only {
            _ if many => many_senders::run().await,
            None => {
                compare_writers(&SENDERS).await?;
                many_senders::run().await?;
                end_to_end::run().await
            }
            Some(0) => end_to_end::run().await,
            Some(senders) => compare_writers(&[senders]).await,
        }
    })
}

async fn compare_writers(wanted: &[usize]) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    for kind in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
        let fixture = DatabaseFixture::open(kind).await?;
        for &senders in wanted {
            compare_at_concurrency(&fixture, senders, &mut table).await?;
        }
    }
    println!(
        "## Durable messages of 200 bytes, acknowledged after the commit (median of {RUNS} runs of {RUN:?})\n\n{table}\n\n{NOTES}\n"
    );
    Ok(())
}

const HEADER: [&str; 7] = [
    "database",
    "senders",
    "strategy",
    "messages/s",
    "CPU µs/message, this process",
    "server",
    "rate, one transaction per message = 1",
];

const NOTES: &str = "\
Each sender waits for its acknowledgement before it sends again, in one of 50 conversations. SQLite: `synchronous=FULL`. \
PostgreSQL: `fsync` and `synchronous_commit` on, one connection per sender for the strategy \"one transaction per message\".";

async fn compare_at_concurrency(
    fixture: &DatabaseFixture,
    senders: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    let naive = WriteStrategy::OneTransactionEach(fixture.database.clone());
    let writer = Arc::new(MessageWriter::start(fixture.database.clone()));
    let ways = [
        ("one transaction per message", naive),
        (
            "group commit",
            WriteStrategy::GroupCommit(Arc::clone(&writer)),
        ),
    ];
    // The first runs extend the write-ahead log, which takes longer than overwriting it.
    for (_, way) in &ways {
        run_senders(way, 64).await?;
    }
    // The strategies alternate, so that other load on the machine affects both.
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for ((_, way), runs) in ways.iter().zip(&mut runs) {
            runs.push(measure_once(fixture, way, senders).await?);
        }
    }
    writer.stop().await;
    let figures = runs.map(median_by_rate);
    for ((name, _), one) in ways.iter().zip(figures) {
        table.add_row([
            fixture.kind.name().to_owned(),
            senders.to_string(),
            (*name).to_owned(),
            format_thousands(one.rate),
            format!("{:.0}", one.cpu),
            match fixture.kind {
                DatabaseKind::Sqlite => "-".to_owned(),
                DatabaseKind::Postgres => format!("{:.0}", one.server),
            },
            format!("{:.1}", one.rate / figures[0].rate),
        ]);
    }
    Ok(())
}

/// Returns the run with the median rate.
fn median_by_rate(mut runs: Vec<WriteCost>) -> WriteCost {
    runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    runs[runs.len() / 2]
}

async fn measure_once(
    fixture: &DatabaseFixture,
    way: &WriteStrategy,
    senders: usize,
) -> anyhow::Result<WriteCost> {
    let server = fixture.server_cpu()?;
    let cost = measure_cost(run_senders(way, senders)).await?;
    let server = fixture.server_cpu()?.saturating_sub(server);
    Ok(WriteCost {
        rate: cost.ops_per_second(),
        cpu: cost.cpu_micros_per_op(),
        server: server.as_secs_f64() * 1e6 / cost.operations as f64,
    })
}

/// Runs all senders until the time is over. Returns the number of messages.
async fn run_senders(way: &WriteStrategy, senders: usize) -> anyhow::Result<u64> {
    let end = Instant::now() + RUN;
    let sender = |number: usize| {
        let way = way.clone();
        async move {
            let mut done = 0;
            while Instant::now() < end {
                way.send(new_draft(number)?).await?;
                done += 1;
            }
            anyhow::Ok(done)
        }
    };
    let tasks = (0..senders).map(|number| tokio::spawn(sender(number)));
    let counts = try_join_all(tasks).await?;
    counts.into_iter().sum()
}

fn new_draft(sender: usize) -> anyhow::Result<MessageDraft> {
    let at = Timestamp(1);
    let id = at.new_uuid_v7();
    Ok(MessageDraft {
        id,
        conversation: ConversationId::new(database_fixture::conversation(sender))?,
        sender: UserId::new(database_fixture::user(sender))?,
        sender_role: Role::User,
        content: "m".repeat(200),
        metadata: None,
        client_id: Some(id.to_string()),
        mentions: Vec::new(),
        at,
    })
}
