//! A full disk, a failing disk and a hanging disk.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use parlor_embedded::{EmbeddedConnection, EmbeddedEngine, EngineOptions};
use parlor_testkit::{DiskFault, DiskFaults, InjectedDiskFault, eventually};
use tempfile::TempDir;

use super::{child, child_folder, command, get_text, open, run_commands, try_command};

const FAILED_FSYNC_EXIT: i32 = 74;

/// Runs one of the tests below in a child process with fault injection.
fn run_with_faults(test: &str, folder: &Path) -> Output {
    let faults = DiskFaults::new();
    let test = format!("persistence::disk_faults::{test}");
    child(&test, folder, &faults.environment())
        .output()
        .unwrap()
}

/// Injects a fault into the store file of this child process.
fn inject(fault: DiskFault) -> InjectedDiskFault {
    let faults = DiskFaults::of_this_process();
    faults.unwrap().inject(fault, "store.db")
}

fn assert_passed(output: &Output) {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // A name that matches no test would succeed as well.
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

/// Runs a command that writes. Returns the code of its error.
async fn write(connection: &EmbeddedConnection, line: &str) -> Result<(), &'static str> {
    let written = command(line).exec_async(&mut connection.clone()).await;
    written.map_err(|error| match error.code() {
        Some("MISCONF") => "MISCONF",
        Some("TRYAGAIN") => "TRYAGAIN",
        _ => panic!("{line}: {error}"),
    })
}

fn open_with_short_interval(folder: &Path) -> EmbeddedEngine {
    EmbeddedEngine::open(EngineOptions {
        data_folder: Some(folder.to_owned()),
        flush_interval: Duration::from_millis(10),
        ..EngineOptions::default()
    })
    .unwrap()
}

/// Repairs the fault and waits until the engine flushes again without a request.
async fn repair(fault: InjectedDiskFault, engine: &EmbeddedEngine) {
    let flushed = engine.flush_count();
    let before = *flushed.borrow();
    fault.repair();
    eventually("a flush", async || *flushed.borrow() > before).await;
    run_commands(engine, "SET after 1").await;
    engine.flush().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child_the_disk_fills_up() {
    let Some(folder) = child_folder() else { return };
    let engine = open_with_short_interval(&folder);
    run_commands(&engine, "SET before 1\nRPUSH list a b").await;
    engine.flush().await.unwrap();

    let full = inject(DiskFault::Full);
    // One transaction, because a flush between two commands would make the second one fail.
    let mut both = redis::pipe();
    both.atomic()
        .set("meanwhile", 1)
        .ignore()
        .rpush("list", "c")
        .ignore();
    let _: () = both.query_async(&mut engine.connection()).await.unwrap();
    let failure = engine.flush().await.unwrap_err();
    assert!(failure.to_string().contains("full"), "{failure}");
    for line in ["SET rejected 1", "RPUSH list d", "DEL before"] {
        let error = try_command(&engine, line).await.unwrap_err();
        assert_eq!(error.code(), Some("MISCONF"), "{error}");
        assert!(error.to_string().contains("reads still work"), "{error}");
    }
    assert_eq!(get_text(&engine, "GET before").await.as_deref(), Some("1"));
    assert_eq!(
        get_text(&engine, "GET meanwhile").await.as_deref(),
        Some("1")
    );
    assert_eq!(get_text(&engine, "GET rejected").await, None);
    assert!(engine.unflushed_bytes() > 0);

    repair(full, &engine).await;
    run_commands(&engine, "RPUSH list e").await;
    engine.close().await;
}

#[tokio::test]
async fn a_full_disk_rejects_writes_until_there_is_space_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    assert_passed(&run_with_faults(
        "in_a_child_the_disk_fills_up",
        folder.path(),
    ));
    let engine = open(folder.path());
    assert!(engine.previous_run_was_clean());
    for key in ["before", "meanwhile", "after"] {
        assert_eq!(
            get_text(&engine, &format!("GET {key}")).await.as_deref(),
            Some("1"),
            "{key}"
        );
    }
    let list: Vec<String> = super::command("LRANGE list 0 -1")
        .query_async(&mut engine.connection())
        .await
        .unwrap();
    assert_eq!(list, ["a", "b", "c", "e"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child_the_disk_is_full_from_the_start() {
    let Some(folder) = child_folder() else { return };
    let full = inject(DiskFault::Full);
    let engine = open_with_short_interval(&folder);
    assert_eq!(get_text(&engine, "GET before").await.as_deref(), Some("1"));
    assert_eq!(
        try_command(&engine, "SET rejected 1")
            .await
            .unwrap_err()
            .code(),
        Some("MISCONF")
    );
    // The file says that the last run was clean, so a change that a crash loses would leave no trace.
    let volatile = engine.connection().with_volatile_updates();
    assert_eq!(write(&volatile, "SET before 2").await, Err("MISCONF"));
    repair(full, &engine).await;
    engine.close().await;
}

#[tokio::test]
async fn a_store_opens_on_a_full_disk_and_accepts_writes_once_there_is_space() {
    let folder = TempDir::new().unwrap();
    let engine = open(folder.path());
    run_commands(&engine, "SET before 1").await;
    engine.close().await;
    assert_passed(&run_with_faults(
        "in_a_child_the_disk_is_full_from_the_start",
        folder.path(),
    ));
    let engine = open(folder.path());
    assert!(engine.previous_run_was_clean());
    assert_eq!(get_text(&engine, "GET after").await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child_the_engine_closes_on_a_full_disk() {
    let Some(folder) = child_folder() else { return };
    let engine = open_with_short_interval(&folder);
    run_commands(&engine, "SET before 1").await;
    engine.flush().await.unwrap();
    let _full = inject(DiskFault::Full);
    run_commands(&engine, "SET lost 1").await;
    engine.close().await;
    assert!(engine.flush().await.is_err());
}

#[tokio::test]
async fn closing_on_a_full_disk_is_not_a_clean_close() {
    let folder = TempDir::new().unwrap();
    assert_passed(&run_with_faults(
        "in_a_child_the_engine_closes_on_a_full_disk",
        folder.path(),
    ));
    let engine = open(folder.path());
    assert!(!engine.previous_run_was_clean());
    assert_eq!(get_text(&engine, "GET before").await.as_deref(), Some("1"));
    assert_eq!(get_text(&engine, "GET lost").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child_fsync_fails() {
    let Some(folder) = child_folder() else { return };
    let engine = open_with_short_interval(&folder);
    run_commands(&engine, "SET before 1").await;
    engine.flush().await.unwrap();
    let _broken = inject(DiskFault::FailingSync);
    run_commands(&engine, "SET after 1").await;
    let _ = engine.flush().await;
}

#[tokio::test]
async fn a_failed_fsync_exits_the_process_and_names_the_reason() {
    let folder = TempDir::new().unwrap();
    let output = run_with_faults("in_a_child_fsync_fails", folder.path());
    let reason = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(FAILED_FSYNC_EXIT), "{reason}");
    assert!(
        reason.contains("fsync of the embedded store failed"),
        "{reason}"
    );
    let engine = open(folder.path());
    assert!(!engine.previous_run_was_clean());
    assert_eq!(get_text(&engine, "GET before").await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child_volatile_and_deferred_writes_meet_a_full_disk() {
    let Some(folder) = child_folder() else { return };
    let engine = EmbeddedEngine::open(EngineOptions {
        data_folder: Some(folder),
        flush_interval: Duration::from_millis(10),
        max_unflushed_bytes: 20_000,
        ..EngineOptions::default()
    })
    .unwrap();
    run_commands(&engine, "SET beat 1").await;
    engine.flush().await.unwrap();
    engine.check_writable().unwrap();
    let full = inject(DiskFault::Full);
    run_commands(&engine, "SET meanwhile 1").await;
    engine.flush().await.unwrap_err();
    let error = engine.check_writable().unwrap_err();
    assert_eq!(error.code(), Some("MISCONF"), "{error}");

    let connection = engine.connection();
    assert_eq!(write(&connection, "SET beat 2").await, Err("MISCONF"));
    let volatile = connection.with_volatile_updates();
    for _ in 0..1_000 {
        assert_eq!(write(&volatile, "SET beat 2").await, Ok(()));
    }
    let beat = get_text(&engine, "GET beat").await;
    assert_eq!(beat.as_deref(), Some("2"));
    let deferred = connection.with_deferred_writes();
    assert_eq!(write(&deferred, "SET deferred 1").await, Ok(()));
    // The memory for changes that are not on disk is bounded.
    let large = format!("SET large {}", "x".repeat(1_000));
    let mut accepted = 0;
    while write(&deferred, &large).await.is_ok() {
        accepted += 1;
        assert!(accepted < 1_000);
    }
    assert!(accepted > 1);

    repair(full, &engine).await;
    engine.check_writable().unwrap();
    engine.close().await;
}

#[tokio::test]
async fn a_full_disk_rejects_neither_volatile_nor_deferred_writes() {
    let folder = TempDir::new().unwrap();
    assert_passed(&run_with_faults(
        "in_a_child_volatile_and_deferred_writes_meet_a_full_disk",
        folder.path(),
    ));
    let engine = open(folder.path());
    assert!(engine.previous_run_was_clean());
    for (key, value) in [("meanwhile", "1"), ("deferred", "1"), ("beat", "1")] {
        let found = get_text(&engine, &format!("GET {key}")).await;
        assert_eq!(found.as_deref(), Some(value), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child_the_disk_hangs() {
    let Some(folder) = child_folder() else { return };
    let engine = EmbeddedEngine::open(EngineOptions {
        data_folder: Some(folder),
        flush_interval: Duration::from_millis(10),
        max_unflushed_bytes: 20_000,
        max_flush_wait: Duration::from_millis(50),
        ..EngineOptions::default()
    })
    .unwrap();
    run_commands(&engine, "SET before 1").await;
    engine.flush().await.unwrap();
    let hanging = inject(DiskFault::HangingSync);
    let connection = engine.connection();
    let large = format!("SET large {}", "x".repeat(1_000));
    let mut accepted = 0;
    let error = loop {
        match write(&connection, &large).await {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 1_000);
    };
    assert_eq!(error, "TRYAGAIN");
    assert_eq!(write(&connection, "SET rejected 1").await, Err("TRYAGAIN"));
    let error = engine.check_writable().unwrap_err();
    assert_eq!(error.code(), Some("TRYAGAIN"), "{error}");
    assert_eq!(get_text(&engine, "GET before").await.as_deref(), Some("1"));
    hanging.repair();
    eventually("writes are accepted", async || {
        write(&connection, "SET after 1").await.is_ok()
    })
    .await;
    engine.close().await;
}

#[tokio::test]
async fn a_hanging_disk_rejects_writes_until_it_answers() {
    let folder = TempDir::new().unwrap();
    assert_passed(&run_with_faults("in_a_child_the_disk_hangs", folder.path()));
    let engine = open(folder.path());
    assert!(engine.previous_run_was_clean());
    assert_eq!(get_text(&engine, "GET after").await.as_deref(), Some("1"));
    assert_eq!(get_text(&engine, "GET rejected").await, None);
}
