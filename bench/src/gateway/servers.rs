//! The compared servers. Each runs with its Redis on the first core; this process runs on the second.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use parlor_testkit::{Redis, ServerProcess, ServerProcessOptions};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::users_and_rooms;
use crate::measure::resident;

const SERVER_CORE: usize = 0;
pub const GENERATOR_CORE: usize = 1;
/// Secret that signs the tokens, for the generator and the servers.
pub const SECRET: &str = "a secret for the length of a benchmark";
/// Slightly longer than `presence.grace`.
const PRESENCE_GRACE: Duration = Duration::from_secs(6);
const PEER_LISTEN_ENV: &str = "PEER_LISTEN";

/// Kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BenchServerKind {
    /// Parlor with its embedded store and SQLite.
    Parlor,
    /// Node.js with socket.io, without state.
    NodeStateless,
    /// Node.js with socket.io, and Redis through ioredis.
    NodeRedis,
}

impl BenchServerKind {
    /// All servers, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Parlor, Self::NodeStateless, Self::NodeRedis];

    /// Name on the command line.
    pub fn cli_name(self) -> &'static str {
        match self {
            Self::Parlor => "parlor",
            Self::NodeStateless => "plain",
            Self::NodeRedis => "redis",
        }
    }

    /// Name in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parlor => "Parlor",
            Self::NodeStateless => "Node",
            Self::NodeRedis => "Node + Redis",
        }
    }
}

/// A running server.
pub struct BenchServer {
    pub kind: BenchServerKind,
    pub address: SocketAddr,
    node: ServerProcess,
    redis: Option<Redis>,
}

impl BenchServer {
    /// Starts the server on its core, with limits that the load does not reach.
    pub async fn start(kind: BenchServerKind) -> anyhow::Result<Self> {
        let raised = [
            ("LIMITS__MESSAGES", "10000"),
            ("LIMITS__MESSAGE_WINDOW", "1s"),
            ("LIMITS__HTTP", "10000"),
            ("LIMITS__HTTP_WINDOW", "1s"),
            ("GATEWAY__EVENTS", "10000"),
            ("GATEWAY__EVENT_BURST", "100000"),
            ("GATEWAY__HANDSHAKES", "1000000"),
            ("GATEWAY__HANDSHAKE_BURST", "10000000"),
        ];
        Self::start_with(kind, &raised).await
    }

    /// Starts the server on its core, Parlor with these settings in addition to its defaults.
    pub async fn start_with(
        kind: BenchServerKind,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        // A child process inherits the core of its parent.
        pin_to_core(SERVER_CORE)?;
        let started = Self::start_on_current_core(kind, settings).await;
        pin_to_core(GENERATOR_CORE)?;
        started
    }

    /// Sends `SIGTERM` without waiting.
    pub fn send_sigterm(&mut self) {
        self.node.send_sigterm();
    }

    /// Waits for the exit and starts the server again, on its core and address. The server then listens, but may not be
    /// ready.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let ended = self.node.wait_for_exit().await;
        ensure!(ended.success(), "the server failed: {}", self.node.output());
        pin_to_core(SERVER_CORE)?;
        self.node.restart().await;
        pin_to_core(GENERATOR_CORE)
    }

    async fn start_on_current_core(
        kind: BenchServerKind,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let redis = match kind {
            BenchServerKind::NodeRedis => Some(Redis::start().await),
            _ => None,
        };
        let node = match kind {
            BenchServerKind::Parlor => parlor(settings)?.start().await,
            BenchServerKind::NodeStateless => peer("stateless.js")?.start().await,
            BenchServerKind::NodeRedis => {
                let url = redis.as_ref().map(Redis::url).unwrap_or_default();
                peer("redis.js")?.env("PEER_REDIS", url).start().await
            }
        };
        let address = match kind {
            BenchServerKind::Parlor => {
                let http = node.http_url();
                let address = http.trim_start_matches("http://").parse()?;
                users_and_rooms::wait_until_ready(address).await?;
                address
            }
            _ => node.address(PEER_LISTEN_ENV),
        };
        Ok(Self {
            kind,
            address,
            node,
            redis,
        })
    }

    fn processes(&self) -> impl Iterator<Item = u32> {
        let redis = self.redis.as_ref().map(Redis::pid);
        std::iter::once(self.node.pid()).chain(redis)
    }

    /// CPU time that the server and its Redis have used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        self.processes().map(process_cpu_time).sum()
    }

    /// Resident memory of the server and its Redis in bytes, and the part of Redis.
    pub fn resident(&self) -> anyhow::Result<(u64, u64)> {
        let of = |pid: u32| resident(&pid.to_string());
        let redis = self.redis.as_ref().map(|it| of(it.pid()));
        let redis = redis.transpose()?.unwrap_or(0);
        Ok((of(self.node.pid())? + redis, redis))
    }

    /// Waits until all users are offline, then [`wait_until_idle`](Self::wait_until_idle): Parlor sets users offline
    /// only after the grace period, and that work must not be part of the next measurement.
    pub async fn wait_until_users_offline(&self) -> anyhow::Result<()> {
        if self.kind == BenchServerKind::Parlor {
            tokio::time::sleep(PRESENCE_GRACE).await;
        }
        self.settle().await
    }

    /// Waits until the server has finished its deferred work, which it delays by up to a second, and returned memory.
    pub async fn settle(&self) -> anyhow::Result<()> {
        if self.kind != BenchServerKind::Parlor {
            let pid = i32::try_from(self.node.pid())?;
            kill_process(
                Pid::from_raw(pid).context("a process id is positive")?,
                Signal::USR2,
            )?;
        }
        let mut quiet = 0;
        for _ in 0..40 {
            let before = self.cpu()?;
            tokio::time::sleep(Duration::from_millis(300)).await;
            // An idle server uses up to one hundredth of its core.
            let rests = self.cpu()?.saturating_sub(before) <= Duration::from_millis(10);
            quiet = if rests { quiet + 1 } else { 0 };
            if quiet == 5 {
                return Ok(());
            }
        }
        eprintln!("{} does not become idle", self.kind.name());
        Ok(())
    }
}

/// Pins this thread and its later child processes to a core.
pub fn pin_to_core(core: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).context(
        "cannot pin to a core; two cores are required, one for the server, one for the load",
    )
}

/// The binary `parlor` beside this one.
fn parlor(settings: &[(&str, &str)]) -> anyhow::Result<ServerProcessOptions> {
    let program = std::env::current_exe()?.with_file_name("parlor");
    ensure!(
        program.is_file(),
        "{} is missing; run cargo build --release -p parlor-server",
        program.display()
    );
    let node = ServerProcess::parlor_serve(program)
        .env("PARLOR_AUTH__SECRET", SECRET)
        .env("PARLOR_LOG__LEVEL", "warn");
    Ok(settings.iter().fold(node, |node, (name, value)| {
        node.env(format!("PARLOR_{name}"), *value)
    }))
}

fn peer(file: &str) -> anyhow::Result<ServerProcessOptions> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    ensure!(
        folder.join("node_modules").is_dir(),
        "the peers are not installed; run npm ci --prefix bench/peers"
    );
    let found = Command::new("sh")
        .args(["-c", "command -v node"])
        .output()?;
    let node = String::from_utf8(found.stdout)?;
    ensure!(!node.trim().is_empty(), "node is not installed");
    Ok(ServerProcess::options(node.trim())
        .arg("--expose-gc")
        .arg(folder.join(file))
        .env("NODE_ENV", "production")
        .env("PEER_SECRET", SECRET)
        .listen(PEER_LISTEN_ENV))
}

/// CPU time of a process, including threads that have ended.
fn process_cpu_time(process: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name can contain any character and ends at the last bracket.
    let (_, fields) = stat
        .rsplit_once(')')
        .context("/proc/<pid>/stat has no process name")?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let ticks = |at: usize| -> anyhow::Result<u64> {
        Ok(fields
            .get(at)
            .context("the kernel does not report CPU time")?
            .parse()?)
    };
    let (user, system) = (ticks(11)?, ticks(12)?);
    let second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(
        (user + system) as f64 / second as f64,
    ))
}
