//! Writers that are faster than the disk.

use parlor_embedded::{EmbeddedEngine, EngineOptions};
use tempfile::TempDir;

use super::{dump, open, options};

const MAX_UNFLUSHED_BYTES: usize = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_wait_for_the_disk_instead_of_filling_the_memory() {
    let folder = TempDir::new().unwrap();
    let engine = EmbeddedEngine::open(EngineOptions {
        max_unflushed_bytes: MAX_UNFLUSHED_BYTES,
        ..options(folder.path())
    })
    .unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let engine = engine.clone();
        writers.spawn(async move {
            let mut connection = engine.connection();
            for n in 0..500 {
                let key = format!("{writer}:{n}");
                let _: () = redis::cmd("SET")
                    .arg(key)
                    .arg("x".repeat(200))
                    .query_async(&mut connection)
                    .await
                    .unwrap();
                // One bound for the batch that is being written, one for the journal, and some for writers that passed
                // the check before.
                assert!(engine.unflushed_bytes() < 3 * MAX_UNFLUSHED_BYTES);
            }
        });
    }
    writers.join_all().await;
    // The flush interval never ends, so backpressure caused every flush.
    assert!(*engine.flush_count().borrow() >= 10);
    let before = dump(&engine).await;
    assert_eq!(before.len(), 2_000);
    engine.close().await;
    assert_eq!(dump(&open(folder.path())).await, before);
}
