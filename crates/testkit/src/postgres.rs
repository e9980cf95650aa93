//! One PostgreSQL server, fast and forgetful: nothing is forced to disk.
//!
//! Always true: it does not run as root, which it refuses; when the tests do, it runs as `postgres` or
//! `nobody`.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{
    binary, ports,
    process::{Folder, Process},
    watchdog::End,
};

const SETTINGS: [&str; 12] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=16MB",
    "lc_messages=C",
    "logging_collector=off",
    // Shared memory that goes away with the folder.
    "dynamic_shared_memory_type=mmap",
    "max_connections=200",
];

/// A running server. Ends on drop.
pub struct Postgres {
    // Before the folder: it must be gone when its folder goes.
    process: Process,
    folder: Folder,
    programs: PathBuf,
    port: u16,
    databases: AtomicUsize,
}

impl Postgres {
    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    /// If PostgreSQL is not installed or does not start.
    pub async fn start() -> Self {
        let programs = binary::postgres();
        let folder = Folder::new("postgres");
        if let Some(account) = Account::find() {
            chown(folder.path(), Some(account.user), Some(account.group)).unwrap();
        }
        let mut initdb = program(&programs, folder.path(), "initdb");
        initdb.args([
            "--no-sync",
            "--no-instructions",
            "--auth=trust",
            "--username=postgres",
        ]);
        initdb.args(["--encoding=UTF8", "--locale=C"]);
        run(initdb).await;

        let mut port = 0;
        let process = started(&programs, folder.path(), || {
            port = ports::free();
            port
        })
        .await;
        Self {
            process,
            folder,
            programs,
            port,
            databases: AtomicUsize::new(0),
        }
    }

    /// The port it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What the server wrote to its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The address of the database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes an empty database and returns its address.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn create_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        self.query(&format!("CREATE DATABASE {name}")).await;
        self.url_of(&name)
    }

    /// Runs one statement in the database `postgres` and returns the rows as text, unaligned.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn query(&self, sql: &str) -> String {
        query(&self.programs, &self.url(), sql).await
    }

    /// As [`Postgres::query`], in a database made by [`Postgres::create_database`].
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn query_in(&self, url: &str, sql: &str) -> String {
        query(&self.programs, url, sql).await
    }

    /// Ends the server without warning.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Starts it again on its port; one that still runs is killed first. What was written without a sync is still there.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&mut self) {
        self.kill9();
        // What a killed server leaves behind to say that it runs.
        let _ = fs::remove_file(self.folder.path().join("data/postmaster.pid"));
        let port = self.port;
        self.process = started(&self.programs, self.folder.path(), || port).await;
    }
}

fn program(programs: &Path, folder: &Path, name: &str) -> Command {
    let mut command = Account::command(Account::find().as_ref(), &programs.join(name));
    command
        .current_dir(folder)
        .arg("-D")
        .arg(folder.join("data"));
    command
}

async fn started(programs: &Path, folder: &Path, mut port: impl FnMut() -> u16) -> Process {
    let command = || {
        let mut command = program(programs, folder, "postgres");
        command.arg("-p").arg(port().to_string());
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        command
    };
    let ready = |process: &Process| process.log().contains("ready to accept connections");
    Process::start("postgres", &folder.join("log"), End::Quit, command, ready).await
}

async fn query(programs: &Path, url: &str, sql: &str) -> String {
    let mut psql = Command::new(programs.join("psql"));
    psql.args([
        "--no-psqlrc",
        "--quiet",
        "--tuples-only",
        "--no-align",
        "--command",
        sql,
        url,
    ]);
    run(psql).await.trim_end().to_owned()
}

async fn run(command: Command) -> String {
    let text = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    let output = command
        .kill_on_drop(true)
        .output()
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}: {}\n{told}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Who the server runs as when the tests run as root.
struct Account {
    user: u32,
    group: u32,
}

impl Account {
    fn find() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = ["postgres", "nobody"]
            .iter()
            .find_map(|name| accounts.lines().find_map(|line| Self::parse(line, name)));
        Some(
            found.expect(
                "PostgreSQL refuses to run as root, so a user postgres or nobody is needed",
            ),
        )
    }

    /// `name:password:user:group:...`
    fn parse(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some(Self {
            user: fields.nth(1)?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
        })
    }

    fn command(account: Option<&Self>, program: &Path) -> Command {
        let Some(Self { user, group }) = account else {
            return Command::new(program);
        };
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={user}"))
            .arg(format!("--regid={group}"))
            .args(["--clear-groups", "--"])
            .arg(program);
        command
    }
}
