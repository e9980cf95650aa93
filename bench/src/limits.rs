//! Checks of a limit per second, by algorithm: the embedded engine beside a real Redis on the same machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use futures_util::future::try_join_all;
use parlor_chat::context::Context;
use parlor_chat::ids::{LimiterId, UserId};
use parlor_chat::keys::{Keyspace, Settings};
use parlor_chat::limits::{Algorithm, Limit, Limits};

use crate::measure::{Cost, grouped, measure, median};
use crate::presence::ground::{Engine, Ground};

const RUN: Duration = Duration::from_millis(500);
const RUNS: usize = 3;
const CALLERS: [usize; 2] = [1, 64];
/// Things that are limited, each by itself.
const KEYS: usize = 1_000;
/// So many that most are admitted, as most requests are.
const REQUESTS: u32 = 10_000;
const WINDOW: Duration = Duration::from_secs(60);

/// What is checked.
#[derive(Debug, Clone, Copy)]
enum Work {
    Window(Limit),
    Messages,
}

impl Work {
    fn all() -> anyhow::Result<[(&'static str, Self); 4]> {
        let window = |algorithm| anyhow::Ok(Self::Window(Limit::new(algorithm, REQUESTS, WINDOW)?));
        Ok([
            ("fixed", window(Algorithm::Fixed)?),
            ("sliding", window(Algorithm::Sliding)?),
            ("gcra", window(Algorithm::Gcra)?),
            ("counter of messages", Self::Messages),
        ])
    }
}

/// Limits and what is limited.
struct Checks {
    limits: Limits,
    ids: Vec<LimiterId>,
    users: Vec<UserId>,
}

impl Checks {
    async fn once(&self, work: Work, number: usize) -> anyhow::Result<()> {
        let at = number % KEYS;
        match work {
            Work::Window(limit) => self.limits.check(&self.ids[at], &limit, 1, false).await?,
            Work::Messages => self.limits.message(&self.users[at], REQUESTS).await?,
        };
        Ok(())
    }
}

/// Prints the table.
pub fn run() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "algorithm",
        "engine",
        "callers",
        "checks/s",
        "CPU µs/check, this process",
        "server",
        "rate, embedded with as many callers = 1",
    ]);
    runtime.block_on(compare(&mut table))?;
    println!(
        "## Checks of limits: {REQUESTS} requests in {WINDOW:?}, {KEYS} keys (median of {RUNS} runs of {RUN:?})\n\n{table}\n"
    );
    Ok(())
}

async fn compare(table: &mut Table) -> anyhow::Result<()> {
    let embedded = Ground::open(Engine::Embedded, None).await?;
    let redis = Ground::open(Engine::Redis, None).await?;
    for (name, work) in Work::all()? {
        for callers in CALLERS {
            let mut base = None;
            for ground in [&embedded, &redis] {
                let checks = checks(ground)?;
                let before = ground.spent().await?;
                let (cost, all) = middle(&checks, work, callers).await?;
                let spent = (ground.spent().await? - before).each(all as f64);
                let base = *base.get_or_insert(cost.rate());
                table.add_row([
                    name.to_owned(),
                    ground.engine.name().to_owned(),
                    callers.to_string(),
                    grouped(cost.rate()),
                    format!("{:.1}", cost.cpu_micros()),
                    match ground.engine {
                        Engine::Redis => format!("{:.1}", spent.server * 1e6),
                        _ => "-".to_owned(),
                    },
                    format!("{:.2}", cost.rate() / base),
                ]);
            }
        }
    }
    embedded.store.close().await;
    redis.store.close().await;
    Ok(())
}

fn checks(ground: &Ground) -> anyhow::Result<Arc<Checks>> {
    let keys = Keyspace::new(Settings::default(), false)?;
    let ids = (0..KEYS).map(|number| LimiterId::new(format!("login:u{number}")));
    let users = (0..KEYS).map(|number| UserId::new(format!("u{number}")));
    Ok(Arc::new(Checks {
        limits: Limits::new(Context::new(ground.store.clone(), keys)),
        ids: ids.collect::<Result<_, _>>()?,
        users: users.collect::<Result<_, _>>()?,
    }))
}

/// The run in the middle by rate, and the checks of all runs.
async fn middle(checks: &Arc<Checks>, work: Work, callers: usize) -> anyhow::Result<(Cost, u64)> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(measure(load(checks, work, callers)).await?);
    }
    let all = runs.iter().map(|run| run.operations).sum();
    Ok((median(runs), all))
}

/// Keeps all callers asking until the time is over.
async fn load(checks: &Arc<Checks>, work: Work, callers: usize) -> anyhow::Result<u64> {
    let end = Instant::now() + RUN;
    let caller = |caller: usize| {
        let checks = Arc::clone(checks);
        async move {
            let mut done = 0;
            while Instant::now() < end {
                checks.once(work, caller * 7_919 + done).await?;
                done += 1;
                // A caller of the embedded engine never waits; the others are to have their turn.
                tokio::task::coop::consume_budget().await;
            }
            anyhow::Ok(done as u64)
        }
    };
    let tasks = (0..callers).map(|number| tokio::spawn(caller(number)));
    let counts = try_join_all(tasks).await?;
    counts.into_iter().sum()
}
