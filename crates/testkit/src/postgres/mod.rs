//! One PostgreSQL server, either fast without durability, or durable.
//!
//! Invariants:
//! 1. The server never runs as root, because PostgreSQL rejects that. If the tests run as root, the server runs as
//!    `postgres` or `nobody`.
//! 2. A restart keeps the port and the data; a durable server keeps every committed transaction.

mod system_user;
mod template;

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use self::system_user::SystemUser;
use crate::{
    eventually, free_port, is_running,
    proc_stat::child_pids,
    programs,
    watchdog::StopSignal,
    watched_process::{TempFolder, WatchedProcess},
};

const COMMON_SETTINGS: [&str; 9] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=16MB",
    "lc_messages=C",
    "logging_collector=off",
    // Shared memory in the data folder, so that it is removed with the folder.
    "dynamic_shared_memory_type=mmap",
    "max_connections=200",
];
/// Settings without durability: no write waits for the disk.
const NON_DURABLE_SETTINGS: [&str; 3] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
];

/// A running server. Ends on drop.
pub struct Postgres {
    // Declared before the folder, so that the process ends before its folder is removed.
    process: WatchedProcess,
    folder: TempFolder,
    bin_dir: PathBuf,
    durable: bool,
    port: u16,
    next_database: AtomicUsize,
    /// Child processes of a server that was killed.
    orphan_pids: Vec<u32>,
}

impl Postgres {
    /// Starts the server and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(false).await
    }

    /// Starts a server that keeps committed transactions, as in production.
    pub async fn start_durable() -> Self {
        Self::start_with(true).await
    }

    async fn start_with(durable: bool) -> Self {
        let bin_dir = programs::find_postgres_bin();
        let folder = TempFolder::new("postgres");
        let user = SystemUser::for_postgres();
        if let Some(user) = &user {
            chown(folder.path(), Some(user.uid), Some(user.gid)).unwrap();
        }
        template::copy_template(&bin_dir, user.as_ref(), &folder.path().join("data")).await;
        let mut port = 0;
        let free = || {
            port = free_port::find_free_port();
            port
        };
        let process = start_process(&bin_dir, &folder, durable, free).await;
        Self {
            process,
            folder,
            bin_dir,
            durable,
            port,
            next_database: AtomicUsize::new(0),
            orphan_pids: Vec::new(),
        }
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// URL of the database `postgres`.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates an empty database and returns its URL.
    pub async fn create_database(&self) -> String {
        let number = self.next_database.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        self.query(&format!("CREATE DATABASE {name}")).await;
        self.url_of(&name)
    }

    /// Runs a statement in the database `postgres` and returns the rows as unaligned text.
    pub async fn query(&self, sql: &str) -> String {
        query(&self.bin_dir, &self.url(), sql).await
    }

    /// Same as [`Postgres::query`], in the database with this URL.
    pub async fn query_in(&self, url: &str, sql: &str) -> String {
        query(&self.bin_dir, url, sql).await
    }

    /// Kills the server.
    pub fn kill9(&mut self) {
        self.orphan_pids.extend(child_pids(self.pid()));
        self.process.kill9();
    }

    /// Starts the server again on the same port and with its data. Kills it first if it runs.
    pub async fn restart(&mut self) {
        self.kill9();
        // The child processes end by themselves, and PostgreSQL does not start while they run.
        let orphans = std::mem::take(&mut self.orphan_pids);
        let gone = async || !orphans.iter().any(|process| is_running(*process));
        eventually("the processes of the killed server end", gone).await;
        // A killed server leaves its lock file behind.
        let _ = fs::remove_file(self.folder.path().join("data/postmaster.pid"));
        let port = self.port;
        self.process = start_process(&self.bin_dir, &self.folder, self.durable, || port).await;
    }
}

/// Starts the server in this folder and waits until it answers.
async fn start_process(
    bin_dir: &Path,
    folder: &TempFolder,
    durable: bool,
    mut port: impl FnMut() -> u16,
) -> WatchedProcess {
    let user = SystemUser::for_postgres();
    let attempt = || {
        let mut command = SystemUser::command_as(user.as_ref(), &bin_dir.join("postgres"));
        command.current_dir(folder.path());
        command.arg("-D").arg(folder.path().join("data"));
        command.arg("-p").arg(port().to_string());
        let non_durable = NON_DURABLE_SETTINGS.iter().filter(|_| !durable);
        for setting in COMMON_SETTINGS.iter().chain(non_durable) {
            command.arg("-c").arg(setting);
        }
        let is_ready =
            |process: &WatchedProcess| process.log().contains("ready to accept connections");
        (command, is_ready)
    };
    let log = folder.path().join("log");
    WatchedProcess::start("postgres", &log, StopSignal::Quit, attempt).await
}

async fn query(bin_dir: &Path, url: &str, sql: &str) -> String {
    let mut psql = Command::new(bin_dir.join("psql"));
    psql.args([
        "--no-psqlrc",
        "--quiet",
        "--tuples-only",
        "--no-align",
        "--command",
        sql,
        url,
    ]);
    run_command(psql).await.trim_end().to_owned()
}

async fn run_command(command: Command) -> String {
    let text = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    let output = command
        .kill_on_drop(true)
        .output()
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{text}: {}\n{stderr}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
