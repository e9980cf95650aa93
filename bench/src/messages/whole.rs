//! The whole way of a message: rate, row, recent list, frame, event, counts; and a page of history.
//!
//! What a message costs must not grow with its room, but for the names of members that its event carries.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::{Table, presets};
use parlor_chat::messages::Page;

use super::ground::Kind;
use super::rooms::{Rooms, Served, room, sender};
use crate::measure::{Cost, grouped, measure};

/// The third is the fan-out limit, up to which each member's counter is written.
const SIZES: [usize; 6] = [2, 10, 32, 100, 1_000, 10_000];
const RUN: Duration = Duration::from_millis(400);
const RUNS: usize = 3;
/// Messages in the room whose history is read, and the number before which the recent list has nothing.
const TOLD: u64 = 400;
const OLD: u64 = 200;
const PAGE: u64 = 50;

/// Prints both tables.
pub async fn run() -> anyhow::Result<()> {
    let (mut sends, mut pages) = (Table::new(), Table::new());
    for (table, header) in [(&mut sends, &SENDS[..]), (&mut pages, &PAGES[..])] {
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(header);
    }
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let rooms = Rooms::open(kind, &SIZES).await?;
        let mut base = None;
        for size in SIZES {
            send(&rooms, size, &mut base, &mut sends).await?;
        }
        history(&rooms, &mut pages).await?;
        rooms.close().await?;
    }
    println!(
        "## One message the whole way, by the members of its room (one sender, median of {RUNS} runs of {RUN:?})\n\n{sends}\n\n{NOTES}\n"
    );
    println!(
        "## A page of {PAGE} messages (one reader, median of {RUNS} runs of {RUN:?})\n\n{pages}\n"
    );
    Ok(())
}

const SENDS: [&str; 10] = [
    "store, database",
    "members",
    "ms/message",
    "CPU µs, this process",
    "the same, 2 members = 1",
    "CPU µs, servers",
    "scripts",
    "reads at Redis",
    "commands, in scripts too",
    "bytes to Redis",
];

const PAGES: [&str; 6] = [
    "store, database",
    "from",
    "pages/s",
    "CPU µs/page, this process",
    "servers",
    "rate, from rows = 1",
];

const NOTES: &str = "\
A message of 200 bytes, answered after commit and store: the rate is taken, the row is on disk, the recent list, frame, event \
and unread counters are written. Up to 32 members (`unread.fanout_limit`) everybody's counter is; up to 1,000 the event names \
everybody. A round trip to Redis is one read there, but for two at once and for long ones.";

/// What one run took.
struct Run {
    cost: Cost,
    served: Served,
}

/// Does it in some runs, and gives the one in the middle by rate.
async fn middle(rooms: &Rooms, work: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<Run> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let before = rooms.served().await?;
        let cost = measure(repeat(&work)).await?;
        let served = each(before, rooms.served().await?, cost.operations as f64);
        runs.push(Run { cost, served });
    }
    runs.sort_by(|a, b| a.cost.rate().total_cmp(&b.cost.rate()));
    Ok(runs.swap_remove(RUNS / 2))
}

/// What only servers have.
fn of_servers(rooms: &Rooms, text: String) -> String {
    match rooms.rows.kind {
        Kind::Sqlite => "-".to_owned(),
        Kind::Postgres => text,
    }
}

async fn send(
    rooms: &Rooms,
    size: usize,
    base: &mut Option<f64>,
    table: &mut Table,
) -> anyhow::Result<()> {
    // The first ones fill what is kept of the room.
    for _ in 0..20 {
        rooms.send(size).await?;
    }
    let run = middle(rooms, async || rooms.send(size).await.map(drop));
    let Run { cost, served } = run.await?;
    let cpu = cost.cpu_micros();
    let base = *base.get_or_insert(cpu);
    let of_servers = |text| of_servers(rooms, text);
    table.add_row([
        rooms.name(),
        grouped(size as f64),
        format!("{:.2}", 1e3 / cost.rate()),
        format!("{cpu:.0}"),
        format!("{:.2}", cpu / base),
        of_servers(format!("{:.0}", served.cpu * 1e6)),
        of_servers(format!("{:.2}", served.scripts)),
        of_servers(format!("{:.2}", served.reads)),
        of_servers(format!("{:.1}", served.commands)),
        of_servers(grouped(served.bytes)),
    ]);
    Ok(())
}

async fn history(rooms: &Rooms, table: &mut Table) -> anyhow::Result<()> {
    let size = SIZES[0];
    while rooms.send(size).await? < TOLD {}
    let (room, user) = (room(size)?, sender()?);
    let mut costs = Vec::new();
    for (from, page) in [
        ("rows", Page::Before(OLD)),
        ("the recent list", Page::Newest),
    ] {
        let read = async || {
            let history = rooms.messages().history(&room, Some(&user), page, PAGE);
            let found = history.await?.messages.len();
            let all = u64::try_from(found).is_ok_and(|found| found == PAGE);
            all.then_some(()).context("a page has a hole")
        };
        let before = rooms.messages().row_reads();
        read().await?;
        let rows = rooms.messages().row_reads() > before;
        anyhow::ensure!(rows == (from == "rows"), "the page is not from {from}");
        costs.push((from, middle(rooms, read).await?));
    }
    let base = costs[0].1.cost.rate();
    for (from, Run { cost, served }) in costs {
        table.add_row([
            rooms.name(),
            from.to_owned(),
            grouped(cost.rate()),
            format!("{:.0}", cost.cpu_micros()),
            of_servers(rooms, format!("{:.0}", served.cpu * 1e6)),
            format!("{:.1}", cost.rate() / base),
        ]);
    }
    Ok(())
}

/// Does it again and again until the time is over; how often.
async fn repeat(work: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let end = Instant::now() + RUN;
    let mut done = 0;
    while Instant::now() < end {
        work().await?;
        done += 1;
    }
    Ok(done)
}

fn each(before: Served, after: Served, count: f64) -> Served {
    let share = |of: fn(&Served) -> f64| (of(&after) - of(&before)) / count;
    Served {
        cpu: share(|it| it.cpu),
        scripts: share(|it| it.scripts),
        reads: share(|it| it.reads),
        commands: share(|it| it.commands),
        bytes: share(|it| it.bytes),
    }
}
