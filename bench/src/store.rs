//! Calls per second through the store: the embedded store compared with Redis on the same machine.

use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use futures_util::future::try_join_all;
use parlor_store::{LuaScript, Store, StoreOptions};
use parlor_testkit::Redis;
use redis::{Pipeline, Value, cmd};

use crate::measure::{RunCost, format_thousands, measure_cost, median_by_rate};

const RUN: Duration = Duration::from_secs(1);
const RUNS: usize = 3;
const KEYS: u64 = 10_000;

static THREE_CALLS: LuaScript = LuaScript::new(
    "three_calls",
    "local n = redis.call('INCR', KEYS[1])
     redis.call('HSET', KEYS[2], 'value', ARGV[1])
     redis.call('EXPIRE', KEYS[2], ARGV[2])
     return n",
);

#[derive(Debug, Clone, Copy)]
enum StoreWorkload {
    Get,
    HsetExpire,
    Script,
}

impl StoreWorkload {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::HsetExpire => "HSET + EXPIRE, one pipeline",
            Self::Script => "script with 3 calls",
        }
    }

    async fn call_once(self, store: &mut Store, n: u64) -> redis::RedisResult<()> {
        let n = n % KEYS;
        match self {
            Self::Get => cmd("GET")
                .arg(("key", n).to_key())
                .query_async::<Value>(store)
                .await
                .map(drop),
            Self::HsetExpire => {
                let key = ("hash", n).to_key();
                let mut pipeline = Pipeline::with_capacity(2);
                pipeline.cmd("HSET").arg(&key).arg("value").arg(&VALUE[..]);
                pipeline.cmd("EXPIRE").arg(&key).arg(60);
                pipeline.query_async::<Value>(store).await.map(drop)
            }
            Self::Script => {
                let keys = [("n", n).to_key(), ("hash", n).to_key()];
                let call = THREE_CALLS.keys(&keys[..]).arg(&VALUE[..]).arg(60);
                call.run::<Value>(store).await.map(drop)
            }
        }
    }
}

const VALUE: [u8; 200] = [b'v'; 200];

trait ToKey {
    fn to_key(self) -> String;
}

impl ToKey for (&str, u64) {
    fn to_key(self) -> String {
        format!("{}:{}", self.0, self.1)
    }
}

/// Keeps `tasks` calls in flight until the time is over. Returns the number of calls.
async fn run_concurrent_calls(
    store: &Store,
    work: StoreWorkload,
    tasks: u64,
) -> anyhow::Result<u64> {
    let end = Instant::now() + RUN;
    let task = |task: u64| {
        let mut store = store.clone();
        async move {
            let mut done = 0u64;
            // Reading the clock costs as much as a fast call, so only every 64th call does it.
            while !done.is_multiple_of(64) || Instant::now() < end {
                work.call_once(&mut store, task * 7_919 + done).await?;
                done += 1;
            }
            Ok::<_, redis::RedisError>(done)
        }
    };
    Ok(try_join_all((0..tasks).map(task)).await?.into_iter().sum())
}

async fn median_cost(store: &Store, work: StoreWorkload, tasks: u64) -> anyhow::Result<RunCost> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(measure_cost(run_concurrent_calls(store, work, tasks)).await?);
    }
    Ok(median_by_rate(runs))
}

async fn preload_keys(store: &Store) -> anyhow::Result<()> {
    let mut store = store.clone();
    for n in 0..KEYS {
        cmd("SET")
            .arg(("key", n).to_key())
            .arg(&VALUE[..])
            .exec_async(&mut store)
            .await?;
    }
    Ok(())
}

/// Prints the table.
pub fn run() -> anyhow::Result<()> {
    // One thread, so that the embedded store and its caller share one core.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let folder = tempfile::tempdir()?;
        let redis = Redis::start().await;
        let kept = StoreOptions { data_folder: Some(folder.path().to_owned()), ..StoreOptions::default() };
        let stores = [
            ("embedded, in memory", Store::open(StoreOptions::default()).await?, 1),
            ("embedded, on disk", Store::open(kept).await?, 1),
            ("Redis, 1 task", Store::open(StoreOptions::new(redis.url().parse()?)).await?, 1),
            ("Redis, 64 tasks", Store::open(StoreOptions::new(redis.url().parse()?)).await?, 64),
        ];
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["work", "store", "calls/s", "CPU µs/call, this process", "rate, embedded on disk = 1"]);
        for (_, store, _) in &stores {
            preload_keys(store).await?;
        }
        for work in [StoreWorkload::Get, StoreWorkload::HsetExpire, StoreWorkload::Script] {
            let mut costs = Vec::new();
            for (name, store, tasks) in &stores {
                costs.push((*name, median_cost(store, work, *tasks).await?));
            }
            let base = costs[1].1.ops_per_second();
            for (name, cost) in costs {
                let ratio = format!("{:.2}", cost.ops_per_second() / base);
                let cpu = format!("{:.2}", cost.cpu_micros_per_op());
                table.add_row([work.name(), name, &format_thousands(cost.ops_per_second()), &cpu, &ratio]);
            }
        }
        println!("## Store calls with 200-byte values (one thread, median of {RUNS} runs of {RUN:?})\n\n{table}\n");
        for (_, store, _) in &stores {
            store.close().await;
        }
        Ok(())
    })
}
