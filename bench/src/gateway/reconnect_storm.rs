//! Reconnect storm: all clients of a restarted server reconnect at once, without the delay that the server has
//! requested.
//!
//! Invariant: a client with a temporary rejection or a broken connection retries as clients do, until it is connected
//! or permanently rejected.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::client_frames::ReceivedKind;
use super::client_pool::{ClientPool, ReceivedFrame};
use super::servers::BenchServer;
use super::users_and_rooms;
use super::workloads::{self, LoadResult, LoadSnapshot, ReceivedCounts};

/// Timeout of one attempt, as in socket.io-client.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Minimum pause between two attempts without a hint of the server, in milliseconds.
const MIN_BACKOFF_MS: u64 = 500;
/// Maximum jitter added to the pause, in milliseconds.
const BACKOFF_JITTER_MS: u64 = 1_000;
/// Time until all clients must be connected.
const PATIENCE: Duration = Duration::from_secs(120);
const TURN: Duration = Duration::from_millis(50);
/// Error codes after which a retry may succeed.
const RETRYABLE_CODES: [&str; 4] = [
    "rate_limited",
    "store_unavailable",
    "database_unavailable",
    "shutting_down",
];

/// Result of a reconnect storm.
#[derive(Debug)]
pub struct StormResult {
    /// Clients that connected at the first attempt.
    pub connected_first_try: usize,
    /// Attempts after the first one of each client.
    pub retries: usize,
    /// Clients that were permanently rejected, or not connected at the end.
    pub failed: usize,
    pub run: LoadResult,
}

/// State of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientState {
    /// Connecting since this time.
    Connecting(Instant),
    BackingOff,
    Connected,
    Failed,
}

struct ReconnectingClients<'a> {
    pool: ClientPool,
    tokens: &'a [String],
    states: Vec<ClientState>,
    tries: Vec<u32>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Number of failures by text.
    failure_counts: BTreeMap<String, usize>,
}

/// Connects all clients, restarts the server, and lets all clients reconnect at once.
pub async fn run_reconnect_storm(
    server: &mut BenchServer,
    count: usize,
) -> anyhow::Result<StormResult> {
    let (mut pool, _) = workloads::connect(server, 0..count)?;
    server.settle().await?;
    server.send_sigterm();
    let (mut gone, mut received, begun) = (0, Vec::new(), Instant::now());
    while gone < count {
        pool.poll_once(TURN, &mut received)?;
        gone += received
            .iter()
            .filter(|it| it.kind == ReceivedKind::Close)
            .count();
        ensure!(
            begun.elapsed() < PATIENCE,
            "the server closed {gone} of {count} connections"
        );
    }
    drop(pool);
    let tokens = users_and_rooms::tokens(0..count)?;
    server.restart().await?;
    let before = LoadSnapshot::now(server, ReceivedCounts::default())?;
    let mut clients = ReconnectingClients::arrive(server, &tokens)?;
    let begun = Instant::now();
    while clients.is_waiting() && begun.elapsed() < PATIENCE {
        clients.turn()?;
    }
    let run = before.diff_to(&LoadSnapshot::now(
        server,
        ReceivedCounts::connected(count),
    )?);
    let is_in =
        |(state, tries): &(&ClientState, &u32)| **state == ClientState::Connected && **tries == 1;
    let storm = StormResult {
        connected_first_try: clients
            .states
            .iter()
            .zip(&clients.tries)
            .filter(is_in)
            .count(),
        retries: clients.tries.iter().map(|it| *it as usize - 1).sum(),
        failed: clients
            .states
            .iter()
            .filter(|it| **it != ClientState::Connected)
            .count(),
        run,
    };
    for (rejection, times) in &clients.failure_counts {
        eprintln!("{times} times: {rejection}");
    }
    clients.pool.disconnect_all()?;
    Ok(storm)
}

impl<'a> ReconnectingClients<'a> {
    /// Starts to connect all clients.
    fn arrive(server: &BenchServer, tokens: &'a [String]) -> anyhow::Result<Self> {
        let mut pool = ClientPool::new(server.address)?;
        pool.rejections = Some(Vec::new());
        let now = Instant::now();
        for (who, token) in tokens.iter().enumerate() {
            pool.connect(token, &users_and_rooms::device(who))?;
        }
        Ok(Self {
            pool,
            tokens,
            states: vec![ClientState::Connecting(now); tokens.len()],
            tries: vec![1; tokens.len()],
            due: BinaryHeap::new(),
            failure_counts: BTreeMap::new(),
        })
    }

    fn is_waiting(&self) -> bool {
        let under_way =
            |it: &ClientState| matches!(it, ClientState::Connecting(_) | ClientState::BackingOff);
        self.states.iter().any(under_way)
    }

    fn turn(&mut self) -> anyhow::Result<()> {
        let mut received = Vec::new();
        self.pool.poll_once(TURN, &mut received)?;
        for ReceivedFrame {
            client: who, kind, ..
        } in received
        {
            match kind {
                ReceivedKind::Connected => self.states[who] = ClientState::Connected,
                ReceivedKind::Close => self.on_attempt_failed(who, "connection lost"),
                _ => {}
            }
        }
        let refusals = self.pool.rejections.as_mut().map(std::mem::take);
        for (who, rejection) in refusals.unwrap_or_default() {
            self.on_attempt_failed(who, &rejection);
        }
        let now = Instant::now();
        for who in 0..self.states.len() {
            if let ClientState::Connecting(since) = self.states[who]
                && now - since > CONNECT_TIMEOUT
            {
                self.on_attempt_failed(who, "attempt timed out");
            }
        }
        while let Some(&Reverse((due, who))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            self.tries[who] += 1;
            self.states[who] = ClientState::Connecting(now);
            let device = users_and_rooms::device(who);
            self.pool.connect_again(who, &self.tokens[who], &device)?;
        }
        Ok(())
    }

    /// An attempt failed, or a connection ended.
    fn on_attempt_failed(&mut self, who: usize, rejection: &str) {
        if matches!(
            self.states[who],
            ClientState::BackingOff | ClientState::Failed
        ) {
            return;
        }
        *self
            .failure_counts
            .entry(rejection.chars().take(160).collect())
            .or_default() += 1;
        let refused = rejection.contains("\"code\"");
        let temporary = RETRYABLE_CODES
            .iter()
            .any(|it| rejection.contains(&format!("\"{it}\"")));
        if refused && !temporary {
            self.states[who] = ClientState::Failed;
            return;
        }
        let spread = MIN_BACKOFF_MS + who as u64 * 7_919 % BACKOFF_JITTER_MS;
        let pause = retry_after_ms(rejection).unwrap_or(spread).max(spread);
        self.states[who] = ClientState::BackingOff;
        let due = Instant::now() + Duration::from_millis(pause);
        self.due.push(Reverse((due, who)));
    }
}

/// Delay that the server requests, in milliseconds.
fn retry_after_ms(rejection: &str) -> Option<u64> {
    let (_, rest) = rejection.split_once("\"retryAfterMs\":")?;
    let digits = rest.split(|it: char| !it.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_of_a_refusal_is_found() {
        let rejection = "rejected: 44{\"code\":\"rate_limited\",\"data\":{\"retryAfterMs\":1200}}";
        assert_eq!(retry_after_ms(rejection), Some(1_200));
        assert_eq!(retry_after_ms("connection lost"), None);
    }
}
