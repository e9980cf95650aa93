//! The embedded engine with a data folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parlor_store::{
    ManualClock, Store, StoreErrorClass, StoreOpenError, StoreOptions, classify_error,
};
use parlor_testkit::{DiskFault, DiskFaults, eventually};
use redis::AsyncTypedCommands;

fn folder_options(folder: &Path) -> StoreOptions {
    StoreOptions {
        data_folder: Some(folder.to_owned()),
        ..StoreOptions::default()
    }
}

async fn get(store: &Store, key: &str) -> Option<String> {
    store.clone().get(key).await.unwrap()
}

#[tokio::test]
async fn a_clean_stop_keeps_data_and_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder_options(folder.path())).await.unwrap();
    store.clone().set("k", "v").await.unwrap();
    let epoch = *store.epoch().borrow();
    for _ in 0..2 {
        store.close().await;
    }
    drop(store);
    for _ in 0..2 {
        let again = Store::open(folder_options(folder.path())).await.unwrap();
        assert_eq!(get(&again, "k").await.as_deref(), Some("v"));
        assert_eq!(*again.epoch().borrow(), epoch);
        again.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_store_gets_a_new_epoch() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(folder_options(folder.path())).await.unwrap();
    let epoch = *store.epoch().borrow();
    store.clone().set("k", "v").await.unwrap();
    // A copy of the files of a running process is the state that a kill would leave.
    let killed = eventually("the write is on disk", async || {
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let file = file.unwrap();
            if file.file_name() != "store.lock" {
                std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
            }
        }
        let killed = Store::open(folder_options(copy.path())).await.ok()?;
        let found = get(&killed, "k").await.is_some();
        found.then_some(killed)
    })
    .await;
    assert!(*killed.epoch().borrow() > epoch);
}

/// Set for a test that runs in a child process: the folder of its store.
const CHILD_FOLDER_VAR: &str = "PARLOR_TEST_FOLDER";

/// Runs one of the tests below in a child process with fault injection.
async fn run_with_faults(test: &str, folder: &Path) {
    let faults = DiskFaults::new();
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("embedded::{test}"), "--nocapture"]);
    child
        .envs(faults.environment())
        .env(CHILD_FOLDER_VAR, folder);
    let output = child.kill_on_drop(true).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    // A name that matches no test would succeed as well.
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_child_a_killed_store_starts_on_a_full_disk() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER_VAR).map(PathBuf::from) else {
        return;
    };
    let faults = DiskFaults::of_this_process().unwrap();
    let full = faults.inject(DiskFault::Full, "store.db");
    let store = Store::open(folder_options(&folder)).await.unwrap();
    assert!(!store.previous_run_was_clean());
    let error = store.check_writable().await.unwrap_err();
    assert_eq!(classify_error(&error), StoreErrorClass::Full, "{error}");
    let error = store.wait_until_durable().await.unwrap_err();
    assert_eq!(classify_error(&error), StoreErrorClass::Full, "{error}");
    let raised = *store.epoch().borrow();
    full.repair();
    eventually("the store accepts writes", async || {
        store.check_writable().await
    })
    .await;
    store.close().await;
    std::fs::write(folder.join("raised"), raised.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_epoch_that_was_raised_on_a_full_disk_survives_a_clean_stop() {
    let (folder, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(folder_options(folder.path())).await.unwrap();
    store.wait_until_durable().await.unwrap();
    let before = *store.epoch().borrow();
    // A copy of the files of a running process is the state that a kill would leave.
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), killed.path().join(file.file_name())).unwrap();
    }
    run_with_faults(
        "in_a_child_a_killed_store_starts_on_a_full_disk",
        killed.path(),
    )
    .await;
    let raised = std::fs::read_to_string(killed.path().join("raised")).unwrap();
    let raised: u64 = raised.parse().unwrap();
    assert!(raised > before);
    let again = Store::open(folder_options(killed.path())).await.unwrap();
    assert!(again.previous_run_was_clean());
    assert_eq!(*again.epoch().borrow(), raised);
}

#[tokio::test]
async fn a_locked_folder_can_be_opened_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let first = Store::open(folder_options(folder.path())).await.unwrap();
    first.clone().set("k", "v").await.unwrap();
    let error = Store::open(folder_options(folder.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreOpenError::Embedded(_)), "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
    first.close().await;
    let look = StoreOptions {
        read_only: true,
        ..folder_options(folder.path())
    };
    let look = Store::open(look).await.unwrap();
    assert_eq!(get(&look, "k").await.as_deref(), Some("v"));
    assert_eq!(*look.epoch().borrow(), *first.epoch().borrow());
    look.clone().set("k", "w").await.unwrap_err();
}

#[tokio::test]
async fn the_engine_uses_the_manual_clock_of_the_store() {
    let clock = ManualClock::default();
    let options = StoreOptions {
        clock: Some(clock.clone()),
        ..StoreOptions::default()
    };
    let store = Store::open(options).await.unwrap();
    store.clone().set_ex("k", "v", 10).await.unwrap();
    clock.advance(Duration::from_secs(11));
    assert_eq!(get(&store, "k").await, None);
}
