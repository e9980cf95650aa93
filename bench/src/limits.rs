//! Limit checks per second, by algorithm: the embedded store compared with Redis on the same machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use futures_util::future::try_join_all;
use parlor_chat::context::ChatContext;
use parlor_chat::ids::{LimiterId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace};
use parlor_chat::limits::{RateLimit, RateLimitAlgorithm, RateLimiter};

use crate::measure::{RunCost, format_thousands, measure_cost, median_by_rate};
use crate::store_fixture::{Engine, StoreFixture};

const RUN: Duration = Duration::from_millis(500);
const RUNS: usize = 3;
const CALLERS: [usize; 2] = [1, 64];
/// Number of limited ids, each with its own state.
const KEYS: usize = 1_000;
/// High enough that most checks are admitted, as in production.
const REQUESTS: u32 = 10_000;
const WINDOW: Duration = Duration::from_secs(60);

/// Kind of limit that is checked.
#[derive(Debug, Clone, Copy)]
enum LimitCheck {
    Window(RateLimit),
    Messages,
}

impl LimitCheck {
    fn all() -> anyhow::Result<[(&'static str, Self); 4]> {
        let window =
            |algorithm| anyhow::Ok(Self::Window(RateLimit::new(algorithm, REQUESTS, WINDOW)?));
        Ok([
            ("fixed", window(RateLimitAlgorithm::Fixed)?),
            ("sliding", window(RateLimitAlgorithm::Sliding)?),
            ("gcra", window(RateLimitAlgorithm::Gcra)?),
            ("message counter", Self::Messages),
        ])
    }
}

/// Limits and the ids and users that are checked.
struct LimitsFixture {
    limits: RateLimiter,
    ids: Vec<LimiterId>,
    users: Vec<UserId>,
}

impl LimitsFixture {
    async fn check_once(&self, work: LimitCheck, number: usize) -> anyhow::Result<()> {
        let at = number % KEYS;
        match work {
            LimitCheck::Window(limit) => self.limits.check(&self.ids[at], &limit, 1, false).await?,
            LimitCheck::Messages => self.limits.count_message(&self.users[at], REQUESTS).await?,
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
        "store",
        "callers",
        "checks/s",
        "CPU µs/check, this process",
        "server",
        "rate, embedded with the same number of callers = 1",
    ]);
    runtime.block_on(compare(&mut table))?;
    println!(
        "## Limit checks: {REQUESTS} requests in {WINDOW:?}, {KEYS} keys (median of {RUNS} runs of {RUN:?})\n\n{table}\n"
    );
    Ok(())
}

async fn compare(table: &mut Table) -> anyhow::Result<()> {
    let embedded = StoreFixture::open(Engine::Embedded, None).await?;
    let redis = StoreFixture::open(Engine::Redis, None).await?;
    for (name, work) in LimitCheck::all()? {
        for callers in CALLERS {
            let mut base = None;
            for fixture in [&embedded, &redis] {
                let checks = open_fixture(fixture)?;
                let before = fixture.usage().await?;
                let (cost, all) = median_run(&checks, work, callers).await?;
                let spent = (fixture.usage().await? - before).per(all as f64);
                let base = *base.get_or_insert(cost.ops_per_second());
                table.add_row([
                    name.to_owned(),
                    fixture.engine.name().to_owned(),
                    callers.to_string(),
                    format_thousands(cost.ops_per_second()),
                    format!("{:.1}", cost.cpu_micros_per_op()),
                    match fixture.engine {
                        Engine::Redis => format!("{:.1}", spent.server * 1e6),
                        _ => "-".to_owned(),
                    },
                    format!("{:.2}", cost.ops_per_second() / base),
                ]);
            }
        }
    }
    embedded.store.close().await;
    redis.store.close().await;
    Ok(())
}

fn open_fixture(fixture: &StoreFixture) -> anyhow::Result<Arc<LimitsFixture>> {
    let keys = Keyspace::new(KeySettings::default(), false)?;
    let ids = (0..KEYS).map(|number| LimiterId::new(format!("login:u{number}")));
    let users = (0..KEYS).map(|number| UserId::new(format!("u{number}")));
    Ok(Arc::new(LimitsFixture {
        limits: RateLimiter::new(ChatContext::new(fixture.store.clone(), keys)),
        ids: ids.collect::<Result<_, _>>()?,
        users: users.collect::<Result<_, _>>()?,
    }))
}

/// Returns the run with the median rate, and the number of checks of all runs.
async fn median_run(
    checks: &Arc<LimitsFixture>,
    work: LimitCheck,
    callers: usize,
) -> anyhow::Result<(RunCost, u64)> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(measure_cost(run_callers(checks, work, callers)).await?);
    }
    let all = runs.iter().map(|run| run.operations).sum();
    Ok((median_by_rate(runs), all))
}

/// Runs all callers until the time is over. Returns the number of checks.
async fn run_callers(
    checks: &Arc<LimitsFixture>,
    work: LimitCheck,
    callers: usize,
) -> anyhow::Result<u64> {
    let end = Instant::now() + RUN;
    let caller = |caller: usize| {
        let checks = Arc::clone(checks);
        async move {
            let mut done = 0;
            while Instant::now() < end {
                checks.check_once(work, caller * 7_919 + done).await?;
                done += 1;
                // A call to the embedded store never waits, so the task has to yield to the other callers.
                tokio::task::coop::consume_budget().await;
            }
            anyhow::Ok(done as u64)
        }
    };
    let tasks = (0..callers).map(|number| tokio::spawn(caller(number)));
    let counts = try_join_all(tasks).await?;
    counts.into_iter().sum()
}
