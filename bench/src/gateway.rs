//! The gateway under load, beside a plain Node socket.io server and one that does the documented Redis work per event.
//!
//! Always true:
//! 1. A server has the first core for itself and its Redis; the load comes from this process on the second.
//! 2. The load is the same for all: what differs is the address. The servers take turns, so that what else the machine does
//!    meets all of them.
//!
//! `make bench ONLY="gateway idle"` measures one part, `ONLY="gateway rooms parlor"` one server, and a number
//! (`ONLY="gateway idle 500"`) at most so many connections.

mod book;
mod frames;
mod loads;
mod measures;
mod people;
mod plot;
mod servers;
mod storm;
mod swarm;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use self::book::Book;
use self::measures::{
    BEAT_CPU, BEAT_RATE, FIRST_CPU, FIRST_RATE, KNOWN_CPU, KNOWN_RATE, MEMORY, MEMORY_OWN,
    MEMORY_STORE, ROOMS, Rooms, STORM_AGAIN, STORM_FIRST, STORM_LOST, STORM_WALL,
};
use self::servers::{Kind, Server};

const RUNS: usize = 3;
/// Idle ones, and those that connect.
const CONNECTIONS: usize = 10_000;
/// Those that beat and talk.
const CLIENTS: usize = 1_000;
const PARTS: [&str; 6] = ["idle", "connects", "storm", "heartbeats", "rooms", "pace"];
const PLOT: &str = "docs/performance/gateway.svg";

/// What is asked for.
struct Wish {
    parts: Vec<&'static str>,
    servers: Vec<Kind>,
    most: Option<usize>,
}

impl Wish {
    fn parse(words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let (mut parts, mut servers, mut most) = (Vec::new(), Vec::new(), None);
        for word in words {
            let part = PARTS.into_iter().find(|it| *it == word);
            let server = Kind::ALL.into_iter().find(|it| it.word() == word);
            match (part, server, word.parse()) {
                (Some(part), ..) => parts.push(part),
                (_, Some(server), _) => servers.push(server),
                (.., Ok(number @ 10..)) => most = Some(number),
                _ => anyhow::bail!(
                    "{word:?} is no part ({PARTS:?}), no server ({:?}) and no number of connections from 10",
                    Kind::ALL.map(Kind::word)
                ),
            }
        }
        if parts.is_empty() {
            parts = PARTS.to_vec();
        }
        if servers.is_empty() {
            servers = Kind::ALL.to_vec();
        }
        Ok(Self {
            parts,
            servers,
            most,
        })
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.contains(&part)
    }

    fn at_most(&self, number: usize) -> usize {
        self.most.map_or(number, |most| most.min(number))
    }

    /// Everything, so that the plot has all it shows.
    fn is_whole(&self) -> bool {
        self.parts.len() == PARTS.len()
            && self.servers.len() == Kind::ALL.len()
            && self.most.is_none()
    }
}

/// Prints the tables, and draws the plot when all was measured.
pub fn run() -> anyhow::Result<()> {
    let wish = Wish::parse(std::env::args().skip(2))?;
    let connections = wish.at_most(CONNECTIONS);
    ensure!(
        connections <= swarm::most()?,
        "{connections} connections need as many open files: ulimit -n 20000"
    );
    servers::pin(servers::OWN_CORE)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut book = Book::default();
    runtime.block_on(measure(&wish, &mut book))?;
    let all = measures::all();
    println!(
        "## The gateway on one core (median of {RUNS} runs)\n\n{}\n\n{NOTES}\n\n{}\n",
        book.figures(&all),
        book.runs_table(&all)
    );
    if wish.is_whole() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PLOT);
        fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
        fs::write(&file, plot::draw(&book, &all))?;
        println!("The plot is in {PLOT}.\n");
    }
    Ok(())
}

const NOTES: &str = "\
Parlor: embedded store, SQLite with `synchronous=FULL`, session and presence included, every message durable before it is \
acknowledged. Node: no state at all. Node + Redis: the documented Redis work, nothing durable; CPU and memory are those of both \
processes. Times as good: a rate by the rate, a cost by the cost, above 1 Parlor is better. A run whose generator was busier \
than 90 % of its core is void. How it is measured: docs/performance.md.";

async fn measure(wish: &Wish, book: &mut Book) -> anyhow::Result<()> {
    if wish.wants("idle") {
        idle(wish, book).await?;
    }
    if wish.wants("storm") && wish.servers.contains(&Kind::Parlor) {
        for run in 0..RUNS {
            storm(wish, book).await?;
            eprintln!("storm, run {} of {RUNS}", run + 1);
        }
    }
    let mut servers = Vec::new();
    for &kind in &wish.servers {
        servers.push(Server::start(kind).await?);
    }
    for server in servers.iter().filter(|it| it.kind == Kind::Parlor) {
        for rooms in &ROOMS {
            let shape = rooms.shape.fitting(wish.at_most(CLIENTS));
            people::make_rooms(server.address, shape).await?;
        }
    }
    for run in 0..RUNS {
        for server in &servers {
            if wish.wants("connects") {
                connects(server, run, wish, book).await?;
            }
            if wish.wants("heartbeats") {
                heartbeats(server, wish, book).await?;
            }
            for rooms in &ROOMS {
                if wish.wants("rooms") || wish.wants("pace") {
                    talk(server, rooms, wish, book).await?;
                }
            }
            eprintln!("run {} of {RUNS}: {}", run + 1, server.kind.name());
        }
    }
    Ok(())
}

/// Memory of connections that do nothing, on a server that was just started.
async fn idle(wish: &Wish, book: &mut Book) -> anyhow::Result<()> {
    let count = wish.at_most(CONNECTIONS);
    for run in 0..RUNS {
        for &kind in &wish.servers {
            let server = Server::start(kind).await?;
            // What is made once, for the first ones.
            let (swarm, _) = loads::connect(&server, count..count + count / 50)?;
            swarm.leave()?;
            server.empty().await?;
            let (bare, bare_redis) = server.resident()?;
            if kind == Kind::Parlor {
                people::make_known(server.address, count).await?;
                server.settle().await?;
            }
            let (known, _) = server.resident()?;
            let (swarm, _) = loads::connect(&server, 0..count)?;
            server.settle().await?;
            let (full, full_redis) = server.resident()?;
            let store = match kind {
                Kind::Parlor => known.saturating_sub(bare),
                _ => full_redis.saturating_sub(bare_redis),
            };
            let each = |bytes: u64| bytes as f64 / 1_024.0 / count as f64;
            let all = full.saturating_sub(bare);
            book.note(MEMORY, kind, each(all), 0.0);
            book.note(MEMORY_STORE, kind, each(store), 0.0);
            book.note(MEMORY_OWN, kind, each(all.saturating_sub(store)), 0.0);
            swarm.leave()?;
            eprintln!("idle, run {} of {RUNS}: {}", run + 1, kind.name());
        }
    }
    Ok(())
}

/// Everybody who was connected comes back at once to a server that was started again. The others have no drain to begin it.
async fn storm(wish: &Wish, book: &mut Book) -> anyhow::Result<()> {
    let mut server = Server::start_with(Kind::Parlor, &[]).await?;
    let (count, kind) = (wish.at_most(CONNECTIONS), server.kind);
    let storm = storm::blow(&mut server, count).await?;
    let busy = storm.run.busy();
    book.note(STORM_WALL, kind, storm.run.wall, busy);
    let first = storm.first as f64 * 100.0 / count as f64;
    book.note(STORM_FIRST, kind, first, busy);
    book.note(STORM_AGAIN, kind, storm.again as f64, busy);
    book.note(STORM_LOST, kind, storm.lost as f64, busy);
    Ok(())
}

/// Users that the server has never seen, then the same ones again.
async fn connects(server: &Server, run: usize, wish: &Wish, book: &mut Book) -> anyhow::Result<()> {
    let count = wish.at_most(CONNECTIONS);
    // The first thousand talk in rooms.
    let first = CLIENTS + run * count;
    for (rate, cpu) in [(FIRST_RATE, FIRST_CPU), (KNOWN_RATE, KNOWN_CPU)] {
        let (swarm, run) = loads::connect(server, first..first + count)?;
        let done = run.done as f64;
        book.note(rate, server.kind, done / run.wall, run.busy());
        book.note(cpu, server.kind, run.server * 1e6 / done, run.busy());
        swarm.leave()?;
        server.empty().await?;
    }
    Ok(())
}

async fn heartbeats(server: &Server, wish: &Wish, book: &mut Book) -> anyhow::Result<()> {
    let count = wish.at_most(CLIENTS);
    let (mut swarm, _) = loads::connect(server, 0..count)?;
    server.settle().await?;
    let run = loads::heartbeats(server, &mut swarm, count)?;
    let done = run.done as f64;
    book.note(BEAT_RATE, server.kind, done / run.wall, run.busy());
    book.note(BEAT_CPU, server.kind, run.server * 1e6 / done, run.busy());
    swarm.leave()?;
    server.empty().await
}

/// Messages in rooms of one size, as fast as it goes and at a fixed rate.
async fn talk(server: &Server, rooms: &Rooms, wish: &Wish, book: &mut Book) -> anyhow::Result<()> {
    let shape = rooms.shape.fitting(wish.at_most(CLIENTS));
    let (mut swarm, _) = loads::connect(server, 0..shape.clients())?;
    loads::join(&mut swarm, shape)?;
    server.settle().await?;
    let kind = server.kind;
    if wish.wants("pace") {
        let (run, took) = loads::paced(server, &mut swarm, shape)?;
        let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
        book.note(rooms.median, kind, at(0.5), run.busy());
        book.note(rooms.slowest, kind, at(0.99), run.busy());
        let cpu = run.server * 1e6 / run.delivered as f64;
        book.note(rooms.paced_cpu, kind, cpu, run.busy());
    }
    if wish.wants("rooms") {
        let run = loads::messages(server, &mut swarm, shape)?;
        let (done, delivered, busy) = (run.done as f64, run.delivered as f64, run.busy());
        book.note(rooms.messages, kind, done / run.wall, busy);
        book.note(rooms.message_cpu, kind, run.server * 1e6 / done, busy);
        book.note(rooms.events, kind, run.events as f64 / done, busy);
        book.note(rooms.deliveries, kind, delivered / run.wall, busy);
        book.note(rooms.delivery_cpu, kind, run.server * 1e6 / delivered, busy);
    }
    swarm.leave()?;
    server.empty().await
}
