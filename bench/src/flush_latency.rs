//! Latency of reads while the embedded store writes to disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parlor_store::{Store, StoreOptions};
use redis::{Pipeline, cmd};

use crate::measure::format_thousands;

const KEYS_WRITTEN_PER_SECOND: u64 = 200_000;
const DURATION_SECS: u64 = 6;

/// One task reads and records the latency of each call. Another one writes 200,000 keys per second, so that each flush
/// has that many keys to write.
pub fn run() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        println!("## Read latency (GET) during flushes, {} keys written per second\n", format_thousands(KEYS_WRITTEN_PER_SECOND as f64));
        let folder = tempfile::tempdir()?;
        for (name, data) in [("in memory", None), ("on disk", Some(folder.path().to_owned()))] {
            let store = Store::open(StoreOptions { data_folder: data, ..StoreOptions::default() }).await?;
            let calls = measure_read_latencies(&store).await?;
            report(name, calls);
            store.close().await;
        }
        println!("\nBoth rows include the scheduler and the writing task. Their difference is the flush.");
        Ok(())
    })
}

async fn measure_read_latencies(store: &Store) -> anyhow::Result<Vec<Duration>> {
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn(read_until_done(store.clone(), done.clone()));
    let end = Instant::now() + Duration::from_secs(DURATION_SECS);
    let mut store = store.clone();
    let mut n = 0u64;
    while Instant::now() < end {
        let next = Instant::now() + Duration::from_millis(10);
        let mut pipeline = Pipeline::new();
        for _ in 0..KEYS_WRITTEN_PER_SECOND / 100 {
            pipeline
                .cmd("SET")
                .arg(format!("key:{}", n % (KEYS_WRITTEN_PER_SECOND * 2)))
                .arg(&[b'v'; 200][..]);
            n += 1;
        }
        pipeline.exec_async(&mut store).await?;
        tokio::time::sleep_until(next.into()).await;
    }
    done.store(true, Ordering::Relaxed);
    reader.await?
}

async fn read_until_done(mut store: Store, done: Arc<AtomicBool>) -> anyhow::Result<Vec<Duration>> {
    let mut calls = Vec::with_capacity(10_000_000);
    while !done.load(Ordering::Relaxed) {
        let started = Instant::now();
        cmd("GET").arg("key:1").exec_async(&mut store).await?;
        calls.push(started.elapsed());
        if calls.len().is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
    }
    Ok(calls)
}

fn report(name: &str, mut calls: Vec<Duration>) {
    calls.sort();
    let at = |part: f64| calls[((calls.len() - 1) as f64 * part) as usize];
    println!(
        "{name}: {} calls, p50 {:.2?}, p99.9 {:.2?}, p99.999 {:.2?}, maximum {:.2?}",
        format_thousands(calls.len() as f64),
        at(0.5),
        at(0.999),
        at(0.99999),
        at(1.0)
    );
}
