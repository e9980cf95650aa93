//! What presence costs: beats, reads and memory from a thousand to a million users online, and the end of a node.
//!
//! `make bench ONLY=presence` measures all of it in some minutes, `ONLY="presence 10000"` crowds of up to 10,000.
//! Each crowd has a process of its own, so that memory and CPU time are its own.

mod crash;
mod crowd;
mod figures;
pub mod ground;

use std::process::Command;

use anyhow::{Context, ensure};
use comfy_table::{Table, presets};

use crate::measure::grouped;
use crowd::BEAT_EVERY;
use figures::Figures;
use ground::{Engine, Spent};

const LARGEST: usize = 1_000_000;
/// Redis gets no more: its figures do not change any more, and connecting through it takes long.
const LARGEST_ON_REDIS: usize = 100_000;
/// What the child process is asked: `presence crowd <engine> <users>`.
const CHILD: &str = "crowd";
const UNIT: f64 = 100_000.0;

/// Prints the tables, or is the process of one crowd.
pub fn run() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    match &args[..] {
        [child, engine, users] if child == CHILD => crowd(engine, users.parse()?),
        [] => all(LARGEST),
        [most] => all(most
            .parse()
            .context("the largest crowd is a number of users")?),
        _ => anyhow::bail!("presence takes one argument, the largest crowd; 0 for the crash alone"),
    }
}

fn crowd(engine: &str, users: usize) -> anyhow::Result<()> {
    let engine = Engine::ALL.into_iter().find(|it| it.name() == engine);
    let figures = Figures::of(engine.context("there is no such engine")?, users);
    // One thread: what a node and its embedded store do for presence is on one core, the flush apart.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    println!("{}", serde_json::to_string(&runtime.block_on(figures)?)?);
    Ok(())
}

fn all(most: usize) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADER);
    let sizes = [1_000, 10_000, 100_000, LARGEST];
    for users in sizes.into_iter().filter(|users| *users <= most) {
        let embedded = measured(Engine::Embedded, users)?;
        table.add_row(row(&embedded));
        if users <= LARGEST_ON_REDIS {
            let redis = measured(Engine::Redis, users)?;
            table.add_row(row(&redis));
            table.add_row(ratios(&embedded, &redis));
        }
        if users == LARGEST_ON_REDIS {
            table.add_row(row(&measured(Engine::RedisLogged, users)?));
        }
    }
    println!(
        "## Presence: one socket per user, layout `devices`, one beat per user and {BEAT_EVERY} s\n\n{table}\n\n{NOTES}\n"
    );
    println!("## A node dies: lease 5 s, grace time 5 s, 20,000 users\n");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    for engine in [Engine::Embedded, Engine::Redis] {
        runtime.block_on(crash::run(engine))?;
    }
    println!();
    Ok(())
}

fn measured(engine: Engine, users: usize) -> anyhow::Result<Figures> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program);
    child.args(["presence", CHILD, engine.name(), &users.to_string()]);
    let output = child.stderr(std::process::Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "{users} users on {} ended with {}",
        engine.name(),
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("the child said nothing")?;
    Ok(serde_json::from_str(line)?)
}

const HEADER: [&str; 15] = [
    "users",
    "engine",
    "beats/s",
    "CPU µs/beat: node",
    "flush",
    "server",
    "all",
    "cores per 100 000 users",
    "cores measured",
    "disk KB/beat",
    "1 000 statuses: ms (CPU ms)",
    "count µs",
    "sweep, none due, µs (CPU µs/user looked at)",
    "connect CPU µs",
    "bytes/user",
];

const NOTES: &str = "\
CPU per beat: node and server with beats written back to back, flush (the embedded store's writing to disk) at the pace of production. \
Cores per 100 000 users: 5 000 times that. Cores measured: this crowd at that pace, all included. \
Redis keeps nothing on disk, except in the row with AOF (written each second, as the embedded store does). \
Ratios are embedded : Redis; above 1 the rate is better, below 1 the costs are. \
Counting is the same work for every crowd: a row in which it took longer was measured on a busier machine.";

/// CPU of a beat, in all.
fn beat(figures: &Figures) -> f64 {
    figures.beat.node + figures.beat.server + figures.paced.flush
}

fn cores(figures: &Figures) -> f64 {
    beat(figures) * UNIT / BEAT_EVERY as f64
}

fn row(it: &Figures) -> Vec<String> {
    let micros = |seconds: f64| format!("{:.1}", seconds * 1e6);
    let kilobytes = |bytes: f64| format!("{:.1}", bytes / 1024.0);
    let millis = |spent: &Spent| format!("{:.2} ({:.2})", spent.wall * 1e3, spent.cpu() * 1e3);
    vec![
        grouped(it.users as f64),
        it.engine.name().to_owned(),
        grouped(1.0 / it.beat.wall),
        micros(it.beat.node),
        micros(it.paced.flush),
        micros(it.beat.server),
        micros(beat(it)),
        format!("{:.3}", cores(it)),
        format!("{:.3}", it.second.cpu()),
        kilobytes(it.paced.disk),
        millis(&it.statuses),
        micros(it.count.wall),
        format!("{} ({})", micros(it.sweep.wall), micros(it.look.cpu())),
        micros(it.connect.cpu()),
        grouped(it.memory),
    ]
}

fn ratios(embedded: &Figures, redis: &Figures) -> Vec<String> {
    let ratio = |of: &dyn Fn(&Figures) -> f64| format!("{:.2}", of(embedded) / of(redis));
    let none = String::new;
    vec![
        none(),
        "embedded : Redis".to_owned(),
        ratio(&|it| 1.0 / it.beat.wall),
        ratio(&|it| it.beat.node),
        none(),
        none(),
        ratio(&beat),
        ratio(&cores),
        ratio(&|it| it.second.cpu()),
        none(),
        format!(
            "{} ({})",
            ratio(&|it| it.statuses.wall),
            ratio(&|it| it.statuses.cpu())
        ),
        ratio(&|it| it.count.wall),
        format!(
            "{} ({})",
            ratio(&|it| it.sweep.wall),
            ratio(&|it| it.look.cpu())
        ),
        ratio(&|it| it.connect.cpu()),
        ratio(&|it| it.memory),
    ]
}
