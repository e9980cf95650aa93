//! A message end to end: limit, row, recent list, frame, event, unread counters; and a page of history.
//!
//! The cost of a message must not grow with its room, except for the member names in its event.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use comfy_table::{Table, presets};
use parlor_chat::messages::HistoryAnchor;

use super::chat_fixture::{BackendUsage, RoomsFixture, room, sender};
use super::database_fixture::DatabaseKind;
use crate::measure::{RunCost, format_thousands, measure_cost};

/// Members per room. The third size is the fan-out limit, up to which every member's unread counter is written.
const SIZES: [usize; 6] = [2, 10, 32, 100, 1_000, 10_000];
const RUN: Duration = Duration::from_millis(400);
const RUNS: usize = 3;
/// Messages in the room whose history is read.
const HISTORY_MESSAGES: u64 = 400;
/// Pages before this sequence number are read from the database rows.
const OLD_PAGE_BEFORE_SEQ: u64 = 200;
const PAGE_SIZE: u64 = 50;

/// Prints both tables.
pub async fn run() -> anyhow::Result<()> {
    let (mut sends, mut pages) = (Table::new(), Table::new());
    for (table, header) in [
        (&mut sends, &SEND_HEADER[..]),
        (&mut pages, &PAGE_HEADER[..]),
    ] {
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(header);
    }
    for kind in [DatabaseKind::Sqlite, DatabaseKind::Postgres] {
        let rooms = RoomsFixture::open(kind, &SIZES).await?;
        let mut base = None;
        for size in SIZES {
            measure_send(&rooms, size, &mut base, &mut sends).await?;
        }
        measure_history(&rooms, &mut pages).await?;
        rooms.close().await?;
    }
    println!(
        "## A message end to end, by room size (one sender, median of {RUNS} runs of {RUN:?})\n\n{sends}\n\n{NOTES}\n"
    );
    println!(
        "## A page of {PAGE_SIZE} messages (one reader, median of {RUNS} runs of {RUN:?})\n\n{pages}\n"
    );
    Ok(())
}

const SEND_HEADER: [&str; 10] = [
    "store, database",
    "members",
    "ms/message",
    "CPU µs, this process",
    "relative to 2 members",
    "CPU µs, servers",
    "scripts",
    "reads by Redis",
    "commands, including scripts",
    "bytes to Redis",
];

const PAGE_HEADER: [&str; 6] = [
    "store, database",
    "source",
    "pages/s",
    "CPU µs/page, this process",
    "servers",
    "rate, database rows = 1",
];

const NOTES: &str = "\
A message of 200 bytes, acknowledged after its row is on disk and the limit, recent list, frame, event and unread counters are \
written. Every member's counter is written in rooms of up to 32 members (`unread.fanout_limit`). The event names all members in \
rooms of up to 1,000. Redis reads once per round trip, more often for long requests, less often for concurrent ones.";

/// Cost of one run.
struct MeasuredRun {
    cost: RunCost,
    served: BackendUsage,
}

/// Repeats the work in several runs. Returns the run with the median rate.
async fn median_run(
    rooms: &RoomsFixture,
    work: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<MeasuredRun> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let before = rooms.backend_usage().await?;
        let cost = measure_cost(repeat_for_run(&work)).await?;
        let served =
            usage_per_operation(before, rooms.backend_usage().await?, cost.operations as f64);
        runs.push(MeasuredRun { cost, served });
    }
    runs.sort_by(|a, b| a.cost.ops_per_second().total_cmp(&b.cost.ops_per_second()));
    Ok(runs.swap_remove(RUNS / 2))
}

/// Returns the text, or "-" if there are no servers.
fn or_dash_without_servers(rooms: &RoomsFixture, text: String) -> String {
    match rooms.rows.kind {
        DatabaseKind::Sqlite => "-".to_owned(),
        DatabaseKind::Postgres => text,
    }
}

async fn measure_send(
    rooms: &RoomsFixture,
    size: usize,
    base: &mut Option<f64>,
    table: &mut Table,
) -> anyhow::Result<()> {
    // The first messages fill the caches of the room.
    for _ in 0..20 {
        rooms.send(size).await?;
    }
    let run = median_run(rooms, async || rooms.send(size).await.map(drop));
    let MeasuredRun { cost, served } = run.await?;
    let cpu = cost.cpu_micros_per_op();
    let base = *base.get_or_insert(cpu);
    let of_servers = |text| or_dash_without_servers(rooms, text);
    table.add_row([
        rooms.name(),
        format_thousands(size as f64),
        format!("{:.2}", 1e3 / cost.ops_per_second()),
        format!("{cpu:.0}"),
        format!("{:.2}", cpu / base),
        of_servers(format!("{:.0}", served.cpu * 1e6)),
        of_servers(format!("{:.2}", served.scripts)),
        of_servers(format!("{:.2}", served.reads)),
        of_servers(format!("{:.1}", served.commands)),
        of_servers(format_thousands(served.bytes)),
    ]);
    Ok(())
}

async fn measure_history(rooms: &RoomsFixture, table: &mut Table) -> anyhow::Result<()> {
    let size = SIZES[0];
    while rooms.send(size).await? < HISTORY_MESSAGES {}
    let (room, user) = (room(size)?, sender()?);
    let mut costs = Vec::new();
    for (from, page) in [
        ("rows", HistoryAnchor::Before(OLD_PAGE_BEFORE_SEQ)),
        ("the recent list", HistoryAnchor::Newest),
    ] {
        let read = async || {
            let history = rooms
                .messages()
                .history(&room, Some(&user), page, PAGE_SIZE);
            let found = history.await?.messages.len();
            let all = u64::try_from(found).is_ok_and(|found| found == PAGE_SIZE);
            all.then_some(()).context("a page is incomplete")
        };
        let before = rooms.messages().row_reads();
        read().await?;
        let rows = rooms.messages().row_reads() > before;
        anyhow::ensure!(rows == (from == "rows"), "the page is not from {from}");
        costs.push((from, median_run(rooms, read).await?));
    }
    let base = costs[0].1.cost.ops_per_second();
    for (from, MeasuredRun { cost, served }) in costs {
        table.add_row([
            rooms.name(),
            from.to_owned(),
            format_thousands(cost.ops_per_second()),
            format!("{:.0}", cost.cpu_micros_per_op()),
            or_dash_without_servers(rooms, format!("{:.0}", served.cpu * 1e6)),
            format!("{:.1}", cost.ops_per_second() / base),
        ]);
    }
    Ok(())
}

/// Repeats the work until the time is over. Returns the number of repetitions.
async fn repeat_for_run(work: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let end = Instant::now() + RUN;
    let mut done = 0;
    while Instant::now() < end {
        work().await?;
        done += 1;
    }
    Ok(done)
}

fn usage_per_operation(before: BackendUsage, after: BackendUsage, count: f64) -> BackendUsage {
    let share = |of: fn(&BackendUsage) -> f64| (of(&after) - of(&before)) / count;
    BackendUsage {
        cpu: share(|it| it.cpu),
        scripts: share(|it| it.scripts),
        reads: share(|it| it.reads),
        commands: share(|it| it.commands),
        bytes: share(|it| it.bytes),
    }
}
