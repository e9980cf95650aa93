//! Pings, ping timeouts and connect deadlines: one task for all sessions.
//!
//! Invariants:
//! 1. Each tick visits one bucket of sessions for pings and one for ping timeouts, never all sessions.
//! 2. Ticks follow the clock: a late tick does not delay later ones, and does the work of the ticks that were missed.
//! 3. The ping timeout of a session starts when its ping was queued, not when it was due. If ticks were missed, an
//!    overdue session gets one more tick before it is closed, so that a pong that has arrived but was not read yet
//!    still counts.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::session::EngineIoSession;
use super::{EngineIoServer, SessionHandler};
use crate::DisconnectReason;

/// Check of one session at a later tick.
struct PendingTimeoutCheck<H: SessionHandler> {
    at_tick: u32,
    /// The session was overdue after missed ticks. Pongs that arrived meanwhile are read until this check.
    is_recheck: bool,
    session: Arc<EngineIoSession<H>>,
}

impl<H: SessionHandler> EngineIoServer<H> {
    /// Runs the timers. Never returns.
    pub async fn run_timers(self: Arc<Self>) {
        let buckets = u32::try_from(self.sessions.bucket_count()).unwrap_or(u32::MAX);
        let period = (self.options.ping_interval / buckets).max(Duration::from_millis(1));
        let timeout_ticks = timeout_in_ticks(self.options.ping_timeout, period);
        let (begun, first) = (Instant::now(), self.current_tick.load(Ordering::Relaxed));
        let mut pending_checks = Vec::new();
        let mut ticks = 0;
        loop {
            sleep_until(begun + period * (ticks + 1)).await;
            let elapsed_ticks = begun.elapsed().as_nanos() / period.as_nanos();
            ticks = u32::try_from(elapsed_ticks)
                .unwrap_or(u32::MAX)
                .max(ticks + 1);
            self.on_tick(
                first.wrapping_add(ticks).max(1),
                timeout_ticks,
                &mut pending_checks,
            );
        }
    }

    fn on_tick(
        &self,
        tick: u32,
        timeout_ticks: u32,
        pending_checks: &mut Vec<PendingTimeoutCheck<H>>,
    ) {
        let buckets = self.sessions.bucket_count();
        let before = self.current_tick.swap(tick, Ordering::Relaxed);
        let due = due_ticks(before, tick, buckets);
        let ticks_were_missed = *due.start() < tick;
        for due_tick in due.clone() {
            self.sessions
                .for_each_in_bucket(due_tick as usize % buckets, |session| {
                    session.send_ping(tick, &self.ping_frame);
                });
        }
        let mut overdue = Vec::new();
        for check in pending_checks.extract_if(.., |check| check.at_tick <= tick) {
            if check.session.is_ping_overdue(tick, timeout_ticks) {
                overdue.push((check.is_recheck, check.session));
            }
        }
        for due_tick in due {
            let bucket = due_tick.wrapping_sub(timeout_ticks) as usize % buckets;
            self.sessions.for_each_in_bucket(bucket, |session| {
                if session.is_ping_overdue(tick, timeout_ticks) {
                    overdue.push((false, Arc::clone(session)));
                } else if let Some(left) = late_ping_ticks_left(
                    session.unanswered_ping_tick(),
                    tick,
                    timeout_ticks,
                    bucket,
                    buckets,
                ) {
                    pending_checks.push(PendingTimeoutCheck {
                        at_tick: tick.saturating_add(left),
                        is_recheck: false,
                        session: Arc::clone(session),
                    });
                }
            });
        }
        for (is_recheck, session) in overdue {
            if ticks_were_missed && !is_recheck {
                pending_checks.push(PendingTimeoutCheck {
                    at_tick: tick.saturating_add(1),
                    is_recheck: true,
                    session,
                });
            } else {
                session.close(DisconnectReason::PingTimeout);
            }
        }
        self.fire_connect_deadlines();
        self.handler.on_tick();
    }

    /// Reports the sessions whose connect timeout has passed.
    fn fire_connect_deadlines(&self) {
        let now = Instant::now();
        while let Some(session) = self.pop_due_connect_deadline(now) {
            let Some(session) = session.upgrade() else {
                continue;
            };
            let was_renewed = session.transport_state.lock().clear_connect_deadline();
            if was_renewed {
                self.start_connect_deadline(&session);
            } else {
                self.handler.on_connect_deadline(&session);
            }
        }
    }

    fn pop_due_connect_deadline(&self, now: Instant) -> Option<Weak<EngineIoSession<H>>> {
        let mut deadlines = self.connect_deadlines.lock();
        deadlines.front().filter(|(due, _)| *due <= now)?;
        let (_, session) = deadlines.pop_front()?;
        if deadlines.is_empty() {
            deadlines.shrink_to(64);
        }
        Some(session)
    }

    /// Calls [`SessionHandler::on_connect_deadline`] after the connect timeout. If a deadline of the session is queued
    /// already, it starts again when it fires, so the call comes once, at most two timeouts after the first request.
    pub fn start_connect_deadline(&self, session: &Arc<EngineIoSession<H>>) {
        if !session.transport_state.lock().mark_connect_deadline() {
            return;
        }
        let due = Instant::now() + self.options.connect_timeout;
        let mut deadlines = self.connect_deadlines.lock();
        deadlines.push_back((due, Arc::downgrade(session)));
    }
}

/// Ticks after `before` up to `tick`. If there are more of them than buckets, the last ones, so that each bucket is
/// visited once.
fn due_ticks(before: u32, tick: u32, buckets: usize) -> RangeInclusive<u32> {
    let max_ticks = u32::try_from(buckets).unwrap_or(u32::MAX);
    let passed = tick.saturating_sub(before).clamp(1, max_ticks);
    tick - (passed - 1)..=tick
}

/// Ticks left to a session that was pinged late, if its timeout ends before the next check of its bucket.
fn late_ping_ticks_left(
    ping_tick: u32,
    tick: u32,
    timeout_ticks: u32,
    bucket: usize,
    buckets: usize,
) -> Option<u32> {
    let left = timeout_ticks.checked_sub(tick.wrapping_sub(ping_tick))?;
    let was_late = ping_tick != 0 && ping_tick as usize % buckets != bucket;
    (was_late && left > 0 && (left as usize) < buckets).then_some(left)
}

/// Ping timeout in ticks, rounded up.
fn timeout_in_ticks(timeout: Duration, period: Duration) -> u32 {
    let ticks = timeout.as_nanos().div_ceil(period.as_nanos().max(1));
    u32::try_from(ticks).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ping_timeout_is_rounded_up_to_whole_ticks() {
        let ms = Duration::from_millis;
        assert_eq!(timeout_in_ticks(ms(200), ms(12)), 17, "204 ms, not 192");
        assert_eq!(timeout_in_ticks(ms(20_000), ms(1_000)), 20);
        assert_eq!(timeout_in_ticks(ms(0), ms(1)), 1);
    }

    #[test]
    fn a_late_tick_handles_all_missed_ticks_once() {
        assert_eq!(due_ticks(7, 8, 25), 8..=8);
        assert_eq!(due_ticks(7, 10, 25), 8..=10);
        assert_eq!(due_ticks(7, 100, 25), 76..=100, "each bucket once");
    }

    #[test]
    fn a_session_pinged_late_is_checked_when_its_own_timeout_ends() {
        // A session of bucket 5 was pinged two ticks late, at tick 7. Its bucket is checked as if the ping had been on
        // time.
        assert_eq!(late_ping_ticks_left(7, 22, 17, 5, 25), Some(2));
        assert_eq!(
            late_ping_ticks_left(5, 22, 17, 5, 25),
            None,
            "the ping was on time"
        );
        assert_eq!(
            late_ping_ticks_left(0, 22, 17, 5, 25),
            None,
            "the client has answered"
        );
        // With a timeout longer than the interval, the bucket is checked again before the timeout ends.
        assert_eq!(late_ping_ticks_left(7, 15, 60, 5, 25), None);
    }
}
