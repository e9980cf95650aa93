//! Duration of a start with a million keys on disk.

use std::time::Instant;

use parlor_store::{Store, StoreOptions};
use redis::Pipeline;

use crate::measure::{cpu_time, format_thousands};

const KEYS: u64 = 1_000_000;
const BATCH: u64 = 1_000;

/// Fills a store with 200-byte strings, closes it, and opens it again.
pub fn run() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let folder = tempfile::tempdir()?;
            let options = StoreOptions {
                data_folder: Some(folder.path().to_owned()),
                ..StoreOptions::default()
            };
            let mut store = Store::open(options.clone()).await?;
            for batch in 0..KEYS / BATCH {
                let mut pipeline = Pipeline::with_capacity(BATCH as usize);
                for n in batch * BATCH..(batch + 1) * BATCH {
                    pipeline
                        .cmd("SET")
                        .arg(format!("key:{n:012}"))
                        .arg(&[b'v'; 200][..]);
                }
                pipeline.exec_async(&mut store).await?;
            }
            let (closing, cpu) = (Instant::now(), cpu_time());
            store.close().await;
            drop(store);
            println!(
                "## Restart with {} keys of 200 bytes\n",
                format_thousands(KEYS as f64)
            );
            println!(
                "close (last flush): {:.2?}, CPU {:.2?}",
                closing.elapsed(),
                cpu_time() - cpu
            );
            let (opening, cpu) = (Instant::now(), cpu_time());
            let mut store = Store::open(options).await?;
            println!(
                "open (load): {:.2?}, CPU {:.2?} (target: 3 s)",
                opening.elapsed(),
                cpu_time() - cpu
            );
            let keys: u64 = redis::cmd("DBSIZE").query_async(&mut store).await?;
            println!("keys after: {}\n", format_thousands(keys as f64));
            store.close().await;
            Ok(())
        })
}
