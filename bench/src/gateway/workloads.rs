//! Workloads: connects, heartbeats, messages at the maximum rate, messages at a fixed rate.
//!
//! Invariant: a measurement lies between two snapshots while the load is running, without its start and its end. A lost
//! connection is an error.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::client_frames::{self, ReceivedKind};
use super::client_pool::{ClientPool, ReceivedFrame};
use super::servers::BenchServer;
use super::users_and_rooms::{self, RoomLayout};
use crate::measure::cpu_time;

/// Connects or joins in flight.
const MAX_IN_FLIGHT: usize = 64;
/// Messages in flight per room.
const IN_FLIGHT_PER_ROOM: usize = 10;
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURE_DURATION: Duration = Duration::from_secs(2);
/// Longer, because a fixed rate sends fewer messages.
const FIXED_RATE_DURATION: Duration = Duration::from_secs(4);
/// Time without a response after which the run fails.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum wait for an event, so that the clock is checked often enough.
const MAX_POLL_WAIT: Duration = Duration::from_millis(50);
/// Bytes of the text of a message.
const CONTENT_BYTES: usize = 100;

/// Result of a workload.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadResult {
    /// Acknowledgements, or connects.
    pub completed: u64,
    /// Messages delivered to clients.
    pub delivered: u64,
    /// Other events delivered to clients.
    pub other_events: u64,
    pub wall_secs: f64,
    /// CPU seconds of the server; `generator_cpu_secs` are those of this process.
    pub server: f64,
    pub generator_cpu_secs: f64,
}

impl LoadResult {
    /// Part of its core that the generator used.
    pub fn generator_load(&self) -> f64 {
        self.generator_cpu_secs / self.wall_secs
    }
}

/// Clocks and counters at one moment of a load.
pub(super) struct LoadSnapshot {
    at: Instant,
    server: Duration,
    own: Duration,
    counts: ReceivedCounts,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReceivedCounts {
    acks: u64,
    delivered: u64,
    events: u64,
}

impl ReceivedCounts {
    /// Counters after this many connects.
    pub(super) fn connected(count: usize) -> Self {
        Self {
            acks: count as u64,
            ..Self::default()
        }
    }

    fn count(&mut self, kind: ReceivedKind) -> anyhow::Result<()> {
        match kind {
            ReceivedKind::Ack => self.acks += 1,
            ReceivedKind::Message(_) => self.delivered += 1,
            ReceivedKind::Event => self.events += 1,
            ReceivedKind::Close => bail!("the server closed a connection during the measurement"),
            _ => {}
        }
        Ok(())
    }
}

impl LoadSnapshot {
    pub(super) fn now(server: &BenchServer, counts: ReceivedCounts) -> anyhow::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            server: server.cpu()?,
            own: cpu_time(),
            counts,
        })
    }

    pub(super) fn diff_to(&self, end: &Self) -> LoadResult {
        LoadResult {
            completed: end.counts.acks - self.counts.acks,
            delivered: end.counts.delivered - self.counts.delivered,
            other_events: end.counts.events - self.counts.events,
            wall_secs: (end.at - self.at).as_secs_f64(),
            server: (end.server - self.server).as_secs_f64(),
            generator_cpu_secs: (end.own - self.own).as_secs_f64(),
        }
    }
}

/// Connects these users, with a limited number in flight.
pub fn connect(
    server: &BenchServer,
    users: std::ops::Range<usize>,
) -> anyhow::Result<(ClientPool, LoadResult)> {
    let tokens = users_and_rooms::tokens(users.clone())?;
    let mut pool = ClientPool::new(server.address)?;
    let mut clients = users.zip(&tokens);
    let before = LoadSnapshot::now(server, ReceivedCounts::default())?;
    let total = tokens.len();
    run_with_concurrency(&mut pool, total, ReceivedKind::Connected, |pool, _| {
        if let Some((number, token)) = clients.next() {
            pool.connect(token, &users_and_rooms::device(number))?;
        }
        Ok(())
    })?;
    let run = before.diff_to(&LoadSnapshot::now(
        server,
        ReceivedCounts::connected(total),
    )?);
    Ok((pool, run))
}

/// Every client joins its room.
pub fn join(pool: &mut ClientPool, shape: RoomLayout) -> anyhow::Result<()> {
    run_with_concurrency(
        pool,
        shape.client_count(),
        ReceivedKind::Ack,
        |pool, who| {
            let body = format!("{{\"conversationId\":\"{}\"}}", shape.room(who));
            pool.send(
                who,
                &client_frames::event_with_ack("conversation:join", &body),
            )
        },
    )
}

/// Starts `total` operations, with a limited number in flight, and waits until each is answered.
fn run_with_concurrency(
    pool: &mut ClientPool,
    total: usize,
    answer: ReceivedKind,
    mut begin: impl FnMut(&mut ClientPool, usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut begun, mut done, mut received) = (0, 0, Vec::new());
    let mut last = Instant::now();
    while done < total {
        while begun < total && begun - done < MAX_IN_FLIGHT {
            begin(pool, begun)?;
            begun += 1;
        }
        pool.poll_once(Duration::from_secs(1), &mut received)?;
        let before = done;
        for ReceivedFrame { kind, .. } in &received {
            ensure!(
                *kind != ReceivedKind::Close,
                "the server closed a connection"
            );
            done += usize::from(*kind == answer);
        }
        if done > before {
            last = Instant::now();
        }
        ensure!(
            last.elapsed() < RESPONSE_TIMEOUT,
            "{done} of {total} operations were answered, then no more"
        );
    }
    Ok(())
}

/// Every client sends a heartbeat as soon as its previous one is acknowledged.
pub fn heartbeats(
    server: &BenchServer,
    pool: &mut ClientPool,
    clients: usize,
) -> anyhow::Result<LoadResult> {
    let frame = client_frames::event_with_ack("heartbeat", "{}");
    let first: Vec<_> = (0..clients).collect();
    run_closed_loop(server, pool, &first, |_| &frame, |who| who)
}

/// Some members of each room send at a time; an acknowledgement lets the next member send.
pub fn messages(
    server: &BenchServer,
    pool: &mut ClientPool,
    shape: RoomLayout,
) -> anyhow::Result<LoadResult> {
    let frames: Vec<_> = (0..shape.room_count)
        .map(|room| {
            message(
                shape,
                room * shape.members_per_room,
                &"m".repeat(CONTENT_BYTES),
            )
        })
        .collect();
    let clients = 0..shape.client_count();
    let first: Vec<_> = clients
        .filter(|who| who % shape.members_per_room < IN_FLIGHT_PER_ROOM)
        .collect();
    // Each first sender has its own successors, so that no client has two messages in flight.
    let next = |who: usize| match who % shape.members_per_room + IN_FLIGHT_PER_ROOM {
        place if place < shape.members_per_room => who + IN_FLIGHT_PER_ROOM,
        place => who - who % shape.members_per_room + place % IN_FLIGHT_PER_ROOM,
    };
    run_closed_loop(
        server,
        pool,
        &first,
        |who| &frames[who / shape.members_per_room],
        next,
    )
}

fn message(shape: RoomLayout, who: usize, content: &str) -> Vec<u8> {
    let room = shape.room(who);
    let body = format!("{{\"conversationId\":\"{room}\",\"content\":\"{content}\"}}");
    client_frames::event_with_ack("message:send", &body)
}

/// Lets the first clients send, then `next` of each client that received an acknowledgement.
fn run_closed_loop<'a>(
    server: &BenchServer,
    pool: &mut ClientPool,
    first: &[usize],
    frame: impl Fn(usize) -> &'a Vec<u8>,
    next: impl Fn(usize) -> usize,
) -> anyhow::Result<LoadResult> {
    let (mut counts, mut received) = (ReceivedCounts::default(), Vec::new());
    for &who in first {
        pool.send(who, frame(who))?;
    }
    let mut drive = |pool: &mut ClientPool, counts: &mut ReceivedCounts, time: Duration| {
        let end = Instant::now() + time;
        let mut last = Instant::now();
        while Instant::now() < end {
            pool.poll_once(MAX_POLL_WAIT, &mut received)?;
            for ReceivedFrame {
                client: who,
                kind,
                received_at: at,
            } in received.drain(..)
            {
                counts.count(kind)?;
                if kind == ReceivedKind::Ack {
                    last = at;
                    let next = next(who);
                    pool.send(next, frame(next))?;
                }
            }
            ensure!(
                last.elapsed() < RESPONSE_TIMEOUT,
                "the server stopped answering"
            );
        }
        anyhow::Ok(())
    };
    drive(pool, &mut counts, WARM_UP)?;
    let begin = LoadSnapshot::now(server, counts)?;
    drive(pool, &mut counts, MEASURE_DURATION)?;
    let run = begin.diff_to(&LoadSnapshot::now(server, counts)?);
    drain_in_flight(pool, first.len() as u64, |counts| counts.acks)?;
    Ok(run)
}

/// Waits for the responses that are still in flight.
fn drain_in_flight(
    pool: &mut ClientPool,
    expected: u64,
    count: impl Fn(&ReceivedCounts) -> u64,
) -> anyhow::Result<()> {
    let (mut counts, mut received) = (ReceivedCounts::default(), Vec::new());
    let deadline = Instant::now() + RESPONSE_TIMEOUT;
    while count(&counts) < expected {
        pool.poll_once(MAX_POLL_WAIT, &mut received)?;
        received
            .drain(..)
            .try_for_each(|it| counts.count(it.kind))?;
        ensure!(
            Instant::now() < deadline,
            "the server did not answer all requests"
        );
    }
    Ok(())
}

/// Sends messages at a fixed rate, to all rooms in turn. Also returns the sorted latencies of all deliveries, in
/// milliseconds.
pub fn run_at_fixed_rate(
    server: &BenchServer,
    pool: &mut ClientPool,
    shape: RoomLayout,
) -> anyhow::Result<(LoadResult, Vec<f64>)> {
    pool.reads_stamps = true;
    let pause = Duration::from_secs(1) / shape.messages_per_second;
    let total = (WARM_UP + FIXED_RATE_DURATION).as_millis() / pause.as_millis();
    let (mut counts, mut received) = (ReceivedCounts::default(), Vec::new());
    let (mut sent, mut took) = (Vec::new(), Vec::new());
    let (mut begin, started) = (LoadSnapshot::now(server, counts)?, Instant::now());
    let (mut warm, expected) = (false, total as u64 * shape.members_per_room as u64);
    while counts.delivered < expected {
        let (now, due) = (Instant::now(), started + pause * sent.len() as u32);
        ensure!(
            now < started + WARM_UP + FIXED_RATE_DURATION + RESPONSE_TIMEOUT,
            "some messages were not delivered"
        );
        if !warm && now - started >= WARM_UP {
            (begin, warm) = (LoadSnapshot::now(server, counts)?, true);
        }
        if sent.len() as u128 == total || now < due {
            pool.poll_once(
                due.saturating_duration_since(now).min(MAX_POLL_WAIT),
                &mut received,
            )?;
        } else {
            let who = sender_of_message(shape, sent.len());
            let frame = message(
                shape,
                who,
                &client_frames::stamped_content(sent.len() as u32, CONTENT_BYTES),
            );
            sent.push((Instant::now(), warm));
            pool.send(who, &frame)?;
            continue;
        }
        for ReceivedFrame {
            kind,
            received_at: at,
            ..
        } in received.drain(..)
        {
            counts.count(kind)?;
            if let ReceivedKind::Message(Some(number)) = kind
                && let Some(&(sent, warm)) = sent.get(number as usize)
                && warm
            {
                took.push((at - sent).as_secs_f64() * 1e3);
            }
        }
    }
    let run = begin.diff_to(&LoadSnapshot::now(server, counts)?);
    ensure!(!took.is_empty(), "no message had a stamp");
    took.sort_by(f64::total_cmp);
    Ok((run, took))
}

/// Sender of a message at the fixed rate: each message goes to another room, and there from another member.
fn sender_of_message(shape: RoomLayout, number: usize) -> usize {
    number % shape.room_count * shape.members_per_room
        + number / shape.room_count % shape.members_per_room
}
