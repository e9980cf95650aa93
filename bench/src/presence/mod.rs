//! Cost of presence: heartbeats, reads and memory with a thousand to a million users online, and the crash of a node.
//!
//! `make bench ONLY=presence` measures everything in some minutes, `ONLY="presence 10000"` only up to 10,000 users.
//! Each number of users has its own process, so that memory and CPU time are measured separately.

mod costs;
mod node_crash;
mod online_users;

use std::process::Command;

use anyhow::{Context, ensure};
use comfy_table::{Table, presets};

use crate::measure::format_thousands;
use crate::store_fixture::{Engine, ResourceUsage};
use costs::PresenceCosts;
use online_users::HEARTBEAT_INTERVAL_SECS;

const MAX_USERS: usize = 1_000_000;
/// Larger numbers would take long to connect and do not change the costs on Redis.
const MAX_USERS_ON_REDIS: usize = 100_000;
/// Argument of the child process: `presence child <store> <users>`.
const CHILD_ARG: &str = "child";
const REFERENCE_USERS: f64 = 100_000.0;

/// Prints the tables, or measures one number of users as the child process.
pub fn run() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    match &args[..] {
        [child, engine, users] if child == CHILD_ARG => run_child(engine, users.parse()?),
        [] => run_all_sizes(MAX_USERS),
        [most] => run_all_sizes(
            most.parse()
                .context("the argument of presence is a maximum number of users")?,
        ),
        _ => anyhow::bail!(
            "presence takes one argument, the maximum number of users; 0 measures the crash only"
        ),
    }
}

fn run_child(engine: &str, users: usize) -> anyhow::Result<()> {
    let engine = Engine::ALL.into_iter().find(|it| it.name() == engine);
    let figures = PresenceCosts::measure(engine.context("unknown store")?, users);
    // One thread, because a node and its embedded store do the work of presence on one core, except for the flush.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    println!("{}", serde_json::to_string(&runtime.block_on(figures)?)?);
    Ok(())
}

fn run_all_sizes(most: usize) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    let sizes = [1_000, 10_000, 100_000, MAX_USERS];
    for users in sizes.into_iter().filter(|users| *users <= most) {
        let embedded = measure_in_child(Engine::Embedded, users)?;
        table.add_row(row(&embedded));
        if users <= MAX_USERS_ON_REDIS {
            let redis = measure_in_child(Engine::Redis, users)?;
            table.add_row(row(&redis));
            table.add_row(ratios(&embedded, &redis));
        }
        if users == MAX_USERS_ON_REDIS {
            table.add_row(row(&measure_in_child(Engine::RedisAof, users)?));
        }
    }
    println!(
        "## Presence: one socket per user, layout `devices`, one heartbeat per user every {HEARTBEAT_INTERVAL_SECS} s\n\n{table}\n\n{NOTES}\n"
    );
    println!("## Crash of a node: lease 5 s, grace period 5 s, 20,000 users\n");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    for engine in [Engine::Embedded, Engine::Redis] {
        runtime.block_on(node_crash::run(engine))?;
    }
    println!();
    Ok(())
}

fn measure_in_child(engine: Engine, users: usize) -> anyhow::Result<PresenceCosts> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program);
    child.args(["presence", CHILD_ARG, engine.name(), &users.to_string()]);
    let output = child.stderr(std::process::Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "measuring {users} users on {} failed with {}",
        engine.name(),
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let line = text
        .lines()
        .last()
        .context("the child process printed no result")?;
    Ok(serde_json::from_str(line)?)
}

const HEADER: [&str; 15] = [
    "users",
    "store",
    "heartbeats/s",
    "CPU µs/heartbeat: node",
    "flush",
    "server",
    "total",
    "cores per 100 000 users",
    "cores measured",
    "disk KB/heartbeat",
    "1 000 statuses: ms (CPU ms)",
    "count µs",
    "sweep without due users, µs (CPU µs/due user)",
    "connect CPU µs",
    "bytes/user",
];

const NOTES: &str = "\
CPU per heartbeat: node and server with heartbeats written back to back, flush (disk writes of the embedded store) at the rate of production. \
Cores per 100 000 users: 5 000 heartbeats per second. Cores measured: this number of users at that rate, everything included. \
Redis writes nothing to disk, except in the row with AOF (flushed every second, like the embedded store). \
Ratios are embedded : Redis. The embedded store is better if a rate is above 1 or a cost is below 1. \
Counting is the same work for every number of users: if it took longer in a row, the machine was busier.";

/// CPU time of a heartbeat: node, server and flush.
fn beat(figures: &PresenceCosts) -> f64 {
    figures.heartbeat_burst.node_cpu_secs
        + figures.heartbeat_burst.server
        + figures.heartbeat_paced.flush_cpu_secs
}

fn cores_per_reference_users(figures: &PresenceCosts) -> f64 {
    beat(figures) * REFERENCE_USERS / HEARTBEAT_INTERVAL_SECS as f64
}

fn row(it: &PresenceCosts) -> Vec<String> {
    let micros = |seconds: f64| format!("{:.1}", seconds * 1e6);
    let kilobytes = |bytes: f64| format!("{:.1}", bytes / 1024.0);
    let millis =
        |spent: &ResourceUsage| format!("{:.2} ({:.2})", spent.wall_secs * 1e3, spent.cpu() * 1e3);
    vec![
        format_thousands(it.users as f64),
        it.engine.name().to_owned(),
        format_thousands(1.0 / it.heartbeat_burst.wall_secs),
        micros(it.heartbeat_burst.node_cpu_secs),
        micros(it.heartbeat_paced.flush_cpu_secs),
        micros(it.heartbeat_burst.server),
        micros(beat(it)),
        format!("{:.3}", cores_per_reference_users(it)),
        format!("{:.3}", it.second.cpu()),
        kilobytes(it.heartbeat_paced.disk_bytes),
        millis(&it.statuses),
        micros(it.count.wall_secs),
        format!("{} ({})", micros(it.sweep.wall_secs), micros(it.look.cpu())),
        micros(it.connect.cpu()),
        format_thousands(it.memory),
    ]
}

fn ratios(embedded: &PresenceCosts, redis: &PresenceCosts) -> Vec<String> {
    let ratio = |of: &dyn Fn(&PresenceCosts) -> f64| format!("{:.2}", of(embedded) / of(redis));
    let none = String::new;
    vec![
        none(),
        "embedded : Redis".to_owned(),
        ratio(&|it| 1.0 / it.heartbeat_burst.wall_secs),
        ratio(&|it| it.heartbeat_burst.node_cpu_secs),
        none(),
        none(),
        ratio(&beat),
        ratio(&cores_per_reference_users),
        ratio(&|it| it.second.cpu()),
        none(),
        format!(
            "{} ({})",
            ratio(&|it| it.statuses.wall_secs),
            ratio(&|it| it.statuses.cpu())
        ),
        ratio(&|it| it.count.wall_secs),
        format!(
            "{} ({})",
            ratio(&|it| it.sweep.wall_secs),
            ratio(&|it| it.look.cpu())
        ),
        ratio(&|it| it.connect.cpu()),
        ratio(&|it| it.memory),
    ]
}
