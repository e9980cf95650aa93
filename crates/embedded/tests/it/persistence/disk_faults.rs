//! A full disk and a failing disk. A preloaded library between the process and the system injects the faults.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use parlor_embedded::{EmbeddedEngine, EngineOptions};
use parlor_testkit::eventually;
use tempfile::TempDir;

use super::{child, child_folder, get_text, open, run_commands, try_command};

const FAILED_FSYNC_EXIT: i32 = 74;

/// Runs one of the tests below in a child process with fault injection.
fn run_with_faults(test: &str, folder: &Path) -> Output {
    let built = TempDir::new().unwrap();
    let (source, library) = (
        built.path().join("disk_fault_shim.c"),
        built.path().join("shim.so"),
    );
    fs::write(&source, include_str!("disk_fault_shim.c")).unwrap();
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .arg("-ldl")
        .output();
    let compiler = compiler.expect("a C compiler, which the build of the engine needs as well");
    assert!(compiler.status.success(), "{compiler:?}");
    let settings = [
        ("LD_PRELOAD", OsString::from(library)),
        ("PARLOR_TEST_FAULTS", OsString::from(folder)),
    ];
    child(
        &format!("persistence::disk_faults::{test}"),
        folder,
        &settings,
    )
    .output()
    .unwrap()
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

/// An injected fault that lasts until it is repaired.
struct InjectedFault(PathBuf);

impl InjectedFault {
    fn inject(folder: &Path, name: &str) -> Self {
        let path = folder.join(name);
        File::create(&path).unwrap();
        Self(path)
    }

    fn repair(self) {
        fs::remove_file(self.0).unwrap();
    }
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
async fn repair(fault: InjectedFault, engine: &EmbeddedEngine) {
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

    let full = InjectedFault::inject(&folder, "full");
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
    let full = InjectedFault::inject(&folder, "full");
    let engine = open_with_short_interval(&folder);
    assert_eq!(get_text(&engine, "GET before").await.as_deref(), Some("1"));
    assert_eq!(
        try_command(&engine, "SET rejected 1")
            .await
            .unwrap_err()
            .code(),
        Some("MISCONF")
    );
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
    let _full = InjectedFault::inject(&folder, "full");
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
    let _broken = InjectedFault::inject(&folder, "fsync");
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
