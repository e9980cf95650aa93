//! The gateway under load, compared with a stateless Node.js socket.io server and with one that does the documented
//! Redis work per event.
//!
//! Invariants:
//! 1. A server and its Redis have the first core; the load comes from this process on the second.
//! 2. The load is the same for all servers, only the address differs. The servers alternate, so that other load on the
//!    machine affects all of them.
//!
//! `make bench ONLY="gateway idle"` measures one part, `ONLY="gateway rooms parlor"` one server, and a number
//! (`ONLY="gateway idle 500"`) limits the connections.

mod client_frames;
mod client_pool;
mod metrics;
mod plot;
mod reconnect_storm;
mod results;
mod servers;
mod users_and_rooms;
mod workloads;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use self::metrics::{
    BEAT_CPU, BEAT_RATE, FIRST_CPU, FIRST_RATE, KNOWN_CPU, KNOWN_RATE, MEMORY, MEMORY_OWN,
    MEMORY_STORE, ROOMS, RoomMetrics, STORM_AGAIN, STORM_FIRST, STORM_LOST, STORM_WALL,
};
use self::results::Results;
use self::servers::{BenchServer, BenchServerKind};

const RUNS: usize = 3;
/// Connections that are idle or that connect.
const CONNECTIONS: usize = 10_000;
/// Connections that send heartbeats and messages.
const CLIENTS: usize = 1_000;
const PARTS: [&str; 6] = ["idle", "connects", "storm", "heartbeats", "rooms", "pace"];
const PLOT: &str = "docs/performance/gateway.svg";

/// Arguments of the command line.
struct GatewayArgs {
    parts: Vec<&'static str>,
    servers: Vec<BenchServerKind>,
    max_connections: Option<usize>,
}

impl GatewayArgs {
    fn parse(words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let (mut parts, mut servers, mut most) = (Vec::new(), Vec::new(), None);
        for word in words {
            let part = PARTS.into_iter().find(|it| *it == word);
            let server = BenchServerKind::ALL
                .into_iter()
                .find(|it| it.cli_name() == word);
            match (part, server, word.parse()) {
                (Some(part), ..) => parts.push(part),
                (_, Some(server), _) => servers.push(server),
                (.., Ok(number @ 10..)) => most = Some(number),
                _ => anyhow::bail!(
                    "{word:?} is not a part ({PARTS:?}), a server ({:?}) or a number of connections of at least 10",
                    BenchServerKind::ALL.map(BenchServerKind::cli_name)
                ),
            }
        }
        if parts.is_empty() {
            parts = PARTS.to_vec();
        }
        if servers.is_empty() {
            servers = BenchServerKind::ALL.to_vec();
        }
        Ok(Self {
            parts,
            servers,
            max_connections: most,
        })
    }

    fn includes(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    fn at_most(&self, number: usize) -> usize {
        self.max_connections.map_or(number, |most| most.min(number))
    }

    /// True if everything is measured, as the plot requires.
    fn is_complete(&self) -> bool {
        self.parts.len() == PARTS.len()
            && self.servers.len() == BenchServerKind::ALL.len()
            && self.max_connections.is_none()
    }
}

/// Prints the tables, and draws the plot if everything was measured.
pub fn run() -> anyhow::Result<()> {
    let wish = GatewayArgs::parse(std::env::args().skip(2))?;
    let connections = wish.at_most(CONNECTIONS);
    ensure!(
        connections <= client_pool::max_clients()?,
        "{connections} connections need as many open files; run `ulimit -n 20000` first"
    );
    servers::pin_to_core(servers::GENERATOR_CORE)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut results = Results::default();
    runtime.block_on(measure_all(&wish, &mut results))?;
    let all = metrics::all();
    println!(
        "## The gateway on one core (median of {RUNS} runs)\n\n{}\n\n{NOTES}\n\n{}\n",
        results.results_table(&all),
        results.runs_table(&all)
    );
    if wish.is_complete() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PLOT);
        fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
        fs::write(&file, plot::draw(&results, &all))?;
        println!("The plot was written to {PLOT}.\n");
    }
    Ok(())
}

const NOTES: &str = "\
Parlor: embedded store, SQLite with `synchronous=FULL`, including session and presence; every message is durable before it is \
acknowledged. Node: no state. Node + Redis: the documented Redis work, nothing durable; CPU and memory include both \
processes. Ratio: above 1, Parlor is better, for rates and for costs. A run is void if the load generator used more \
than 90 % of its core. The method is described in docs/performance.md.";

async fn measure_all(wish: &GatewayArgs, results: &mut Results) -> anyhow::Result<()> {
    if wish.includes("idle") {
        measure_idle_memory(wish, results).await?;
    }
    if wish.includes("storm") && wish.servers.contains(&BenchServerKind::Parlor) {
        for run in 0..RUNS {
            storm(wish, results).await?;
            eprintln!("reconnect storm, run {} of {RUNS}", run + 1);
        }
    }
    let mut servers = Vec::new();
    for &kind in &wish.servers {
        servers.push(BenchServer::start(kind).await?);
    }
    for server in servers
        .iter()
        .filter(|it| it.kind == BenchServerKind::Parlor)
    {
        for rooms in &ROOMS {
            let shape = rooms.shape.limited_to(wish.at_most(CLIENTS));
            users_and_rooms::make_rooms(server.address, shape).await?;
        }
    }
    for run in 0..RUNS {
        for server in &servers {
            if wish.includes("connects") {
                measure_connects(server, run, wish, results).await?;
            }
            if wish.includes("heartbeats") {
                measure_heartbeats(server, wish, results).await?;
            }
            for rooms in &ROOMS {
                if wish.includes("rooms") || wish.includes("pace") {
                    measure_rooms(server, rooms, wish, results).await?;
                }
            }
            eprintln!("run {} of {RUNS}: {}", run + 1, server.kind.name());
        }
    }
    Ok(())
}

/// Memory of idle connections, on a server that was just started.
async fn measure_idle_memory(wish: &GatewayArgs, results: &mut Results) -> anyhow::Result<()> {
    let count = wish.at_most(CONNECTIONS);
    for run in 0..RUNS {
        for &kind in &wish.servers {
            let server = BenchServer::start(kind).await?;
            // The first connections also allocate memory that later ones share.
            let (pool, _) = workloads::connect(&server, count..count + count / 50)?;
            pool.disconnect_all()?;
            server.wait_until_users_offline().await?;
            let (bare, bare_redis) = server.resident()?;
            if kind == BenchServerKind::Parlor {
                users_and_rooms::create_sessions(server.address, count).await?;
                server.settle().await?;
            }
            let (known, _) = server.resident()?;
            let (pool, _) = workloads::connect(&server, 0..count)?;
            server.settle().await?;
            let (full, full_redis) = server.resident()?;
            let store = match kind {
                BenchServerKind::Parlor => known.saturating_sub(bare),
                _ => full_redis.saturating_sub(bare_redis),
            };
            let each = |bytes: u64| bytes as f64 / 1_024.0 / count as f64;
            let all = full.saturating_sub(bare);
            results.record(MEMORY, kind, each(all), 0.0);
            results.record(MEMORY_STORE, kind, each(store), 0.0);
            results.record(MEMORY_OWN, kind, each(all.saturating_sub(store)), 0.0);
            pool.disconnect_all()?;
            eprintln!("idle, run {} of {RUNS}: {}", run + 1, kind.name());
        }
    }
    Ok(())
}

/// Reconnect storm: all clients reconnect at once to a restarted server. The peers have no drain that could start it.
async fn storm(wish: &GatewayArgs, results: &mut Results) -> anyhow::Result<()> {
    let mut server = BenchServer::start_with(BenchServerKind::Parlor, &[]).await?;
    let (count, kind) = (wish.at_most(CONNECTIONS), server.kind);
    let storm = reconnect_storm::run_reconnect_storm(&mut server, count).await?;
    let busy = storm.run.generator_load();
    results.record(STORM_WALL, kind, storm.run.wall_secs, busy);
    let first = storm.connected_first_try as f64 * 100.0 / count as f64;
    results.record(STORM_FIRST, kind, first, busy);
    results.record(STORM_AGAIN, kind, storm.retries as f64, busy);
    results.record(STORM_LOST, kind, storm.failed as f64, busy);
    Ok(())
}

/// Connects users that are new to the server, then the same users again.
async fn measure_connects(
    server: &BenchServer,
    run: usize,
    wish: &GatewayArgs,
    results: &mut Results,
) -> anyhow::Result<()> {
    let count = wish.at_most(CONNECTIONS);
    // The first thousand users are members of the rooms.
    let first = CLIENTS + run * count;
    for (rate, cpu) in [(FIRST_RATE, FIRST_CPU), (KNOWN_RATE, KNOWN_CPU)] {
        let (pool, run) = workloads::connect(server, first..first + count)?;
        let done = run.completed as f64;
        results.record(
            rate,
            server.kind,
            done / run.wall_secs,
            run.generator_load(),
        );
        results.record(
            cpu,
            server.kind,
            run.server * 1e6 / done,
            run.generator_load(),
        );
        pool.disconnect_all()?;
        server.wait_until_users_offline().await?;
    }
    Ok(())
}

async fn measure_heartbeats(
    server: &BenchServer,
    wish: &GatewayArgs,
    results: &mut Results,
) -> anyhow::Result<()> {
    let count = wish.at_most(CLIENTS);
    let (mut pool, _) = workloads::connect(server, 0..count)?;
    server.settle().await?;
    let run = workloads::heartbeats(server, &mut pool, count)?;
    let done = run.completed as f64;
    results.record(
        BEAT_RATE,
        server.kind,
        done / run.wall_secs,
        run.generator_load(),
    );
    results.record(
        BEAT_CPU,
        server.kind,
        run.server * 1e6 / done,
        run.generator_load(),
    );
    pool.disconnect_all()?;
    server.wait_until_users_offline().await
}

/// Messages in rooms of one size, at the maximum rate and at a fixed rate.
async fn measure_rooms(
    server: &BenchServer,
    rooms: &RoomMetrics,
    wish: &GatewayArgs,
    results: &mut Results,
) -> anyhow::Result<()> {
    let shape = rooms.shape.limited_to(wish.at_most(CLIENTS));
    let (mut pool, _) = workloads::connect(server, 0..shape.client_count())?;
    workloads::join(&mut pool, shape)?;
    server.settle().await?;
    let kind = server.kind;
    if wish.includes("pace") {
        let (run, took) = workloads::run_at_fixed_rate(server, &mut pool, shape)?;
        let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
        results.record(rooms.p50, kind, at(0.5), run.generator_load());
        results.record(rooms.p99, kind, at(0.99), run.generator_load());
        let cpu = run.server * 1e6 / run.delivered as f64;
        results.record(rooms.fixed_rate_cpu, kind, cpu, run.generator_load());
    }
    if wish.includes("rooms") {
        let run = workloads::messages(server, &mut pool, shape)?;
        let (done, delivered, busy) = (
            run.completed as f64,
            run.delivered as f64,
            run.generator_load(),
        );
        results.record(rooms.messages, kind, done / run.wall_secs, busy);
        results.record(rooms.message_cpu, kind, run.server * 1e6 / done, busy);
        results.record(rooms.events, kind, run.other_events as f64 / done, busy);
        results.record(rooms.deliveries, kind, delivered / run.wall_secs, busy);
        results.record(rooms.delivery_cpu, kind, run.server * 1e6 / delivered, busy);
    }
    pool.disconnect_all()?;
    server.wait_until_users_offline().await
}
