//! What is asked of a server: connections, heartbeats, messages as fast as it can, messages at a fixed rate.
//!
//! Always true: what is measured lies between two looks at the clock while the load goes on; how it begins and ends is not
//! in it. A connection that is lost under way is an error.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::frames::{self, Kind};
use super::people::{self, Shape};
use super::servers::Server;
use super::swarm::{Swarm, Told};
use crate::measure::cpu_time;

/// Connections, and joins, under way at a time.
const AT_A_TIME: usize = 64;
/// Messages under way in a room at a time.
const PER_ROOM: usize = 10;
const WARM_UP: Duration = Duration::from_millis(500);
const WINDOW: Duration = Duration::from_secs(2);
/// Of the fixed rate, which has fewer messages.
const PACED: Duration = Duration::from_secs(4);
/// How long a server may take for an answer before the run is given up.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest wait for something to come, so that the clock is looked at.
const TURN: Duration = Duration::from_millis(50);
/// Bytes of a message's text.
const CONTENT: usize = 100;

/// What a stretch of load took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Run {
    /// Acknowledgements, or connections.
    pub done: u64,
    /// Messages that arrived at a client.
    pub delivered: u64,
    /// Other events that did.
    pub events: u64,
    pub wall: f64,
    /// CPU seconds of the server and of this process.
    pub server: f64,
    pub own: f64,
}

impl Run {
    /// How busy the generator was, of one core.
    pub fn busy(&self) -> f64 {
        self.own / self.wall
    }
}

/// A moment of a load.
pub(super) struct Sight {
    at: Instant,
    server: Duration,
    own: Duration,
    counts: Counts,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    acks: u64,
    delivered: u64,
    events: u64,
}

impl Counts {
    /// So many are connected.
    pub(super) fn connected(count: usize) -> Self {
        Self {
            acks: count as u64,
            ..Self::default()
        }
    }

    fn take(&mut self, kind: Kind) -> anyhow::Result<()> {
        match kind {
            Kind::Ack => self.acks += 1,
            Kind::Message(_) => self.delivered += 1,
            Kind::Event => self.events += 1,
            Kind::Close => bail!("the server closed a connection under way"),
            _ => {}
        }
        Ok(())
    }
}

impl Sight {
    pub(super) fn now(server: &Server, counts: Counts) -> anyhow::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            server: server.cpu()?,
            own: cpu_time(),
            counts,
        })
    }

    pub(super) fn until(&self, end: &Self) -> Run {
        Run {
            done: end.counts.acks - self.counts.acks,
            delivered: end.counts.delivered - self.counts.delivered,
            events: end.counts.events - self.counts.events,
            wall: (end.at - self.at).as_secs_f64(),
            server: (end.server - self.server).as_secs_f64(),
            own: (end.own - self.own).as_secs_f64(),
        }
    }
}

/// Connects these users, some at a time.
pub fn connect(server: &Server, users: std::ops::Range<usize>) -> anyhow::Result<(Swarm, Run)> {
    let tokens = people::tokens(users.clone())?;
    let mut swarm = Swarm::new(server.address)?;
    let mut clients = users.zip(&tokens);
    let before = Sight::now(server, Counts::default())?;
    let total = tokens.len();
    some_at_a_time(&mut swarm, total, Kind::Connected, |swarm, _| {
        if let Some((number, token)) = clients.next() {
            swarm.connect(token, &people::device(number))?;
        }
        Ok(())
    })?;
    let run = before.until(&Sight::now(server, Counts::connected(total))?);
    Ok((swarm, run))
}

/// Everybody joins their room.
pub fn join(swarm: &mut Swarm, shape: Shape) -> anyhow::Result<()> {
    some_at_a_time(swarm, shape.clients(), Kind::Ack, |swarm, who| {
        let body = format!("{{\"conversationId\":\"{}\"}}", shape.room(who));
        swarm.send(who, &frames::event("conversation:join", &body))
    })
}

/// Begins `total` things, at most some of them under way, until each has had its answer.
fn some_at_a_time(
    swarm: &mut Swarm,
    total: usize,
    answer: Kind,
    mut begin: impl FnMut(&mut Swarm, usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut begun, mut done, mut told) = (0, 0, Vec::new());
    let mut last = Instant::now();
    while done < total {
        while begun < total && begun - done < AT_A_TIME {
            begin(swarm, begun)?;
            begun += 1;
        }
        swarm.turn(Duration::from_secs(1), &mut told)?;
        let before = done;
        for Told { kind, .. } in &told {
            ensure!(*kind != Kind::Close, "the server closed a connection");
            done += usize::from(*kind == answer);
        }
        if done > before {
            last = Instant::now();
        }
        ensure!(
            last.elapsed() < PATIENCE,
            "{done} of {total} answered, then none"
        );
    }
    Ok(())
}

/// Everybody beats again as soon as the last beat is answered.
pub fn heartbeats(server: &Server, swarm: &mut Swarm, clients: usize) -> anyhow::Result<Run> {
    let frame = frames::event("heartbeat", "{}");
    let first: Vec<_> = (0..clients).collect();
    closed_loop(server, swarm, &first, |_| &frame, |who| who)
}

/// In each room some talk at a time: who had an answer lets the next one speak.
pub fn messages(server: &Server, swarm: &mut Swarm, shape: Shape) -> anyhow::Result<Run> {
    let frames: Vec<_> = (0..shape.rooms)
        .map(|room| message(shape, room * shape.size, &"m".repeat(CONTENT)))
        .collect();
    let clients = 0..shape.clients();
    let first: Vec<_> = clients.filter(|who| who % shape.size < PER_ROOM).collect();
    // Each of the first has successors of its own, so that nobody has two under way.
    let next = |who: usize| match who % shape.size + PER_ROOM {
        place if place < shape.size => who + PER_ROOM,
        place => who - who % shape.size + place % PER_ROOM,
    };
    closed_loop(server, swarm, &first, |who| &frames[who / shape.size], next)
}

fn message(shape: Shape, who: usize, content: &str) -> Vec<u8> {
    let room = shape.room(who);
    let body = format!("{{\"conversationId\":\"{room}\",\"content\":\"{content}\"}}");
    frames::event("message:send", &body)
}

/// Lets the first ones send, and then `next` of whoever had an answer.
fn closed_loop<'a>(
    server: &Server,
    swarm: &mut Swarm,
    first: &[usize],
    frame: impl Fn(usize) -> &'a Vec<u8>,
    next: impl Fn(usize) -> usize,
) -> anyhow::Result<Run> {
    let (mut counts, mut told) = (Counts::default(), Vec::new());
    for &who in first {
        swarm.send(who, frame(who))?;
    }
    let mut drive = |swarm: &mut Swarm, counts: &mut Counts, time: Duration| {
        let end = Instant::now() + time;
        let mut last = Instant::now();
        while Instant::now() < end {
            swarm.turn(TURN, &mut told)?;
            for Told { who, kind, at } in told.drain(..) {
                counts.take(kind)?;
                if kind == Kind::Ack {
                    last = at;
                    let next = next(who);
                    swarm.send(next, frame(next))?;
                }
            }
            ensure!(last.elapsed() < PATIENCE, "the server does not answer");
        }
        anyhow::Ok(())
    };
    drive(swarm, &mut counts, WARM_UP)?;
    let begin = Sight::now(server, counts)?;
    drive(swarm, &mut counts, WINDOW)?;
    let run = begin.until(&Sight::now(server, counts)?);
    settle(swarm, first.len() as u64, |counts| counts.acks)?;
    Ok(run)
}

/// Takes what is still under way.
fn settle(swarm: &mut Swarm, expected: u64, count: impl Fn(&Counts) -> u64) -> anyhow::Result<()> {
    let (mut counts, mut told) = (Counts::default(), Vec::new());
    let deadline = Instant::now() + PATIENCE;
    while count(&counts) < expected {
        swarm.turn(TURN, &mut told)?;
        told.drain(..).try_for_each(|it| counts.take(it.kind))?;
        ensure!(Instant::now() < deadline, "the server does not answer all");
    }
    Ok(())
}

/// Messages at a fixed rate, in turns in all rooms; and the milliseconds that each delivery took, in order.
pub fn paced(server: &Server, swarm: &mut Swarm, shape: Shape) -> anyhow::Result<(Run, Vec<f64>)> {
    swarm.stamps = true;
    let pause = Duration::from_secs(1) / shape.rate;
    let total = (WARM_UP + PACED).as_millis() / pause.as_millis();
    let (mut counts, mut told) = (Counts::default(), Vec::new());
    let (mut sent, mut took) = (Vec::new(), Vec::new());
    let (mut begin, started) = (Sight::now(server, counts)?, Instant::now());
    let (mut warm, expected) = (false, total as u64 * shape.size as u64);
    while counts.delivered < expected {
        let (now, due) = (Instant::now(), started + pause * sent.len() as u32);
        ensure!(
            now < started + WARM_UP + PACED + PATIENCE,
            "messages are missing"
        );
        if !warm && now - started >= WARM_UP {
            (begin, warm) = (Sight::now(server, counts)?, true);
        }
        if sent.len() as u128 == total || now < due {
            swarm.turn(due.saturating_duration_since(now).min(TURN), &mut told)?;
        } else {
            let who = speaker(shape, sent.len());
            let frame = message(shape, who, &frames::stamped(sent.len() as u32, CONTENT));
            sent.push((Instant::now(), warm));
            swarm.send(who, &frame)?;
            continue;
        }
        for Told { kind, at, .. } in told.drain(..) {
            counts.take(kind)?;
            if let Kind::Message(Some(number)) = kind
                && let Some(&(sent, warm)) = sent.get(number as usize)
                && warm
            {
                took.push((at - sent).as_secs_f64() * 1e3);
            }
        }
    }
    let run = begin.until(&Sight::now(server, counts)?);
    ensure!(!took.is_empty(), "the messages lost their stamps");
    took.sort_by(f64::total_cmp);
    Ok((run, took))
}

/// Who sends a message of the fixed rate: each time another room, and there another member.
fn speaker(shape: Shape, number: usize) -> usize {
    number % shape.rooms * shape.size + number / shape.rooms % shape.size
}
