//! Acknowledged durable messages per second: the writer beside one transaction per message, on SQLite and PostgreSQL. Then
//! what a message costs the whole way, by the size of its room, and a page of history.
//!
//! Both ways of writing do the same for a message: look for its name, ask for the membership, number it, insert it, move its
//! sender. `make bench ONLY="messages 64"` measures 64 senders alone, `ONLY="messages 0"` the whole way alone, `ONLY="messages many"`
//! many senders of it.

mod ground;
mod many;
mod naive;
mod rooms;
mod whole;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::{Table, presets};
use futures_util::future::try_join_all;
use parlor_chat::access::Role;
use parlor_chat::context::Moment;
use parlor_chat::database::Database;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::messages::writer::{Draft, Writer};

use self::ground::{Ground, Kind};
use crate::measure::{grouped, measure};

const RUN: Duration = Duration::from_millis(700);
const RUNS: usize = 3;
const SENDERS: [usize; 4] = [1, 10, 64, 100];

/// How a message is written.
#[derive(Clone)]
enum Way {
    /// One transaction each.
    Naive(Database),
    /// What has queued up in one commit.
    Writer(Arc<Writer>),
}

impl Way {
    async fn send(&self, draft: Draft) -> anyhow::Result<()> {
        match self {
            Self::Naive(database) => naive::send(database, draft).await?,
            Self::Writer(writer) => drop(writer.send(draft).await?),
        }
        Ok(())
    }
}

/// What a run took.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    /// CPU microseconds per message, of this process and of the server.
    cpu: f64,
    server: f64,
}

/// Prints the table.
pub fn run() -> anyhow::Result<()> {
    let only = std::env::args().nth(2);
    let many = only.as_deref() == Some("many");
    let only = only.filter(|_| !many).map(|it| it.parse()).transpose();
    let only = only.context("messages takes one argument, the number of senders")?;
    anyhow::ensure!(
        only.is_none_or(|senders| senders <= ground::USERS),
        "there are 1 to {} senders; 0 for the whole way alone",
        ground::USERS
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match only {
            _ if many => many::run().await,
            None => {
                writing(&SENDERS).await?;
                many::run().await?;
                whole::run().await
            }
            Some(0) => whole::run().await,
            Some(senders) => writing(&[senders]).await,
        }
    })
}

async fn writing(wanted: &[usize]) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let ground = Ground::open(kind).await?;
        for &senders in wanted {
            compare(&ground, senders, &mut table).await?;
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
    "way",
    "messages/s",
    "CPU µs/message, this process",
    "server",
    "rate, one transaction each = 1",
];

const NOTES: &str = "\
Each sender waits for its acknowledgement before it sends again, in one of 50 conversations. SQLite: `synchronous=FULL`. \
PostgreSQL: `fsync` and `synchronous_commit` on, a connection for each sender of the naive way.";

async fn compare(ground: &Ground, senders: usize, table: &mut Table) -> anyhow::Result<()> {
    let naive = Way::Naive(ground.database.clone());
    let writer = Arc::new(Writer::start(ground.database.clone()));
    let ways = [
        ("one transaction each", naive),
        ("writer", Way::Writer(Arc::clone(&writer))),
    ];
    // The log grows at first, which takes longer than to write over it.
    for (_, way) in &ways {
        load(way, 64).await?;
    }
    // In turns: what else the machine does meets both.
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for ((_, way), runs) in ways.iter().zip(&mut runs) {
            runs.push(once(ground, way, senders).await?);
        }
    }
    writer.stop().await;
    let figures = runs.map(middle);
    for ((name, _), one) in ways.iter().zip(figures) {
        table.add_row([
            ground.kind.name().to_owned(),
            senders.to_string(),
            (*name).to_owned(),
            grouped(one.rate),
            format!("{:.0}", one.cpu),
            match ground.kind {
                Kind::Sqlite => "-".to_owned(),
                Kind::Postgres => format!("{:.0}", one.server),
            },
            format!("{:.1}", one.rate / figures[0].rate),
        ]);
    }
    Ok(())
}

/// The run in the middle by rate.
fn middle(mut runs: Vec<Figures>) -> Figures {
    runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    runs[runs.len() / 2]
}

async fn once(ground: &Ground, way: &Way, senders: usize) -> anyhow::Result<Figures> {
    let server = ground.server_cpu()?;
    let cost = measure(load(way, senders)).await?;
    let server = ground.server_cpu()?.saturating_sub(server);
    Ok(Figures {
        rate: cost.rate(),
        cpu: cost.cpu_micros(),
        server: server.as_secs_f64() * 1e6 / cost.operations as f64,
    })
}

/// Keeps all senders sending until the time is over.
async fn load(way: &Way, senders: usize) -> anyhow::Result<u64> {
    let end = Instant::now() + RUN;
    let sender = |number: usize| {
        let way = way.clone();
        async move {
            let mut done = 0;
            while Instant::now() < end {
                way.send(draft(number)?).await?;
                done += 1;
            }
            anyhow::Ok(done)
        }
    };
    let tasks = (0..senders).map(|number| tokio::spawn(sender(number)));
    let counts = try_join_all(tasks).await?;
    counts.into_iter().sum()
}

fn draft(sender: usize) -> anyhow::Result<Draft> {
    let at = Moment(1);
    let id = at.uuid();
    Ok(Draft {
        id,
        conversation: ConversationId::new(ground::conversation(sender))?,
        sender: UserId::new(ground::user(sender))?,
        sender_role: Role::User,
        content: "m".repeat(200),
        metadata: None,
        client_id: Some(id.to_string()),
        mentions: Vec::new(),
        at,
    })
}
