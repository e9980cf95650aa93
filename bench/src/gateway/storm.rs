//! Everybody comes back at once: a server that had many connections was told to end, is there again, and nobody keeps to
//! the pause that they were told.
//!
//! Always true: a client that is refused for a while, or whose connection breaks, comes again as clients do, until it is in
//! or is refused for good.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::frames::Kind;
use super::loads::{self, Counts, Run, Sight};
use super::people;
use super::servers::Server;
use super::swarm::{Swarm, Told};

/// How long a client waits for one try, as socket.io-client does.
const TRY: Duration = Duration::from_secs(20);
/// Between two tries without another hint: from this, …
const PAUSE: u64 = 500;
/// … spread over so much, in milliseconds.
const SPREAD: u64 = 1_000;
/// Until everybody has to be in.
const PATIENCE: Duration = Duration::from_secs(120);
const TURN: Duration = Duration::from_millis(50);
/// Codes with which the same again may help.
const TEMPORARY: [&str; 4] = [
    "rate_limited",
    "store_unavailable",
    "database_unavailable",
    "shutting_down",
];

/// What became of them.
#[derive(Debug)]
pub struct Storm {
    /// Those who were in at the first try.
    pub first: usize,
    /// Tries that were refused for a while, or broke.
    pub again: usize,
    /// Those who were refused for good, or not in at the end.
    pub lost: usize,
    pub run: Run,
}

/// Where a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// Since when it tries.
    Trying(Instant),
    Waiting,
    In,
    Lost,
}

struct Crowd<'a> {
    swarm: Swarm,
    tokens: &'a [String],
    stands: Vec<Stand>,
    tries: Vec<u32>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    /// How often each thing was said.
    said: BTreeMap<String, usize>,
}

/// Fills the server, has it end and start again, and lets everybody connect at once.
pub async fn blow(server: &mut Server, count: usize) -> anyhow::Result<Storm> {
    let (mut swarm, _) = loads::connect(server, 0..count)?;
    server.settle().await?;
    server.end();
    let (mut gone, mut told, begun) = (0, Vec::new(), Instant::now());
    while gone < count {
        swarm.turn(TURN, &mut told)?;
        gone += told.iter().filter(|it| it.kind == Kind::Close).count();
        ensure!(begun.elapsed() < PATIENCE, "{gone} of {count} were let go");
    }
    drop(swarm);
    let tokens = people::tokens(0..count)?;
    server.start_again().await?;
    let before = Sight::now(server, Counts::default())?;
    let mut crowd = Crowd::arrive(server, &tokens)?;
    let begun = Instant::now();
    while crowd.is_waiting() && begun.elapsed() < PATIENCE {
        crowd.turn()?;
    }
    let run = before.until(&Sight::now(server, Counts::connected(count))?);
    let is_in = |(stand, tries): &(&Stand, &u32)| **stand == Stand::In && **tries == 1;
    let storm = Storm {
        first: crowd.stands.iter().zip(&crowd.tries).filter(is_in).count(),
        again: crowd.tries.iter().map(|it| *it as usize - 1).sum(),
        lost: crowd.stands.iter().filter(|it| **it != Stand::In).count(),
        run,
    };
    for (said, times) in &crowd.said {
        eprintln!("{times} times: {said}");
    }
    crowd.swarm.leave()?;
    Ok(storm)
}

impl<'a> Crowd<'a> {
    /// All begin to connect.
    fn arrive(server: &Server, tokens: &'a [String]) -> anyhow::Result<Self> {
        let mut swarm = Swarm::new(server.address)?;
        swarm.refusals = Some(Vec::new());
        let now = Instant::now();
        for (who, token) in tokens.iter().enumerate() {
            swarm.connect(token, &people::device(who))?;
        }
        Ok(Self {
            swarm,
            tokens,
            stands: vec![Stand::Trying(now); tokens.len()],
            tries: vec![1; tokens.len()],
            due: BinaryHeap::new(),
            said: BTreeMap::new(),
        })
    }

    fn is_waiting(&self) -> bool {
        let under_way = |it: &Stand| matches!(it, Stand::Trying(_) | Stand::Waiting);
        self.stands.iter().any(under_way)
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let mut told = Vec::new();
        self.swarm.turn(TURN, &mut told)?;
        for Told { who, kind, .. } in told {
            match kind {
                Kind::Connected => self.stands[who] = Stand::In,
                Kind::Close => self.came_to_nothing(who, "the connection broke"),
                _ => {}
            }
        }
        let refusals = self.swarm.refusals.as_mut().map(std::mem::take);
        for (who, said) in refusals.unwrap_or_default() {
            self.came_to_nothing(who, &said);
        }
        let now = Instant::now();
        for who in 0..self.stands.len() {
            if let Stand::Trying(since) = self.stands[who]
                && now - since > TRY
            {
                self.came_to_nothing(who, "no answer in time");
            }
        }
        while let Some(&Reverse((due, who))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            self.tries[who] += 1;
            self.stands[who] = Stand::Trying(now);
            let device = people::device(who);
            self.swarm.connect_again(who, &self.tokens[who], &device)?;
        }
        Ok(())
    }

    /// A try failed, or a connection ended.
    fn came_to_nothing(&mut self, who: usize, said: &str) {
        if matches!(self.stands[who], Stand::Waiting | Stand::Lost) {
            return;
        }
        *self
            .said
            .entry(said.chars().take(160).collect())
            .or_default() += 1;
        let refused = said.contains("\"code\"");
        let temporary = TEMPORARY
            .iter()
            .any(|it| said.contains(&format!("\"{it}\"")));
        if refused && !temporary {
            self.stands[who] = Stand::Lost;
            return;
        }
        let spread = PAUSE + who as u64 * 7_919 % SPREAD;
        let pause = hint(said).unwrap_or(spread).max(spread);
        self.stands[who] = Stand::Waiting;
        let due = Instant::now() + Duration::from_millis(pause);
        self.due.push(Reverse((due, who)));
    }
}

/// How long the server says to wait, in milliseconds.
fn hint(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("\"retryAfterMs\":")?;
    let digits = rest.split(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_of_a_refusal_is_found() {
        let said = "refused: 44{\"code\":\"rate_limited\",\"data\":{\"retryAfterMs\":1200}}";
        assert_eq!(hint(said), Some(1_200));
        assert_eq!(hint("the connection broke"), None);
    }
}
