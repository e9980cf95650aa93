//! Pings and deadlines, by one task for all sessions.
//!
//! Always true:
//! 1. Each tick looks at the sessions of one phase for pings and of one for answers, never at all of them.
//! 2. Ticks keep to the clock: one that comes late delays none after it, and pings that it should have sent go out with it.
//! 3. A client has its full time to answer, from when its ping went out. After a tick that was missed nobody is given up
//!    before what came meanwhile was read.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::session::Session;
use super::{Above, Engine};
use crate::Reason;

/// Who is to be looked at again.
struct Look<U: Above> {
    at: u32,
    /// What came while ticks were missed has been read by then.
    surely: bool,
    session: Arc<Session<U>>,
}

impl<U: Above> Engine<U> {
    /// The timers. Never ends.
    pub async fn run(self: Arc<Self>) {
        let phases = u32::try_from(self.table.phases()).unwrap_or(u32::MAX);
        let period = (self.options.ping_interval / phases).max(Duration::from_millis(1));
        let patience = patience(self.options.ping_timeout, period);
        let (begun, first) = (Instant::now(), self.tick.load(Ordering::Relaxed));
        let mut again = Vec::new();
        let mut ticks = 0;
        loop {
            sleep_until(begun + period * (ticks + 1)).await;
            let gone = begun.elapsed().as_nanos() / period.as_nanos();
            ticks = u32::try_from(gone).unwrap_or(u32::MAX).max(ticks + 1);
            self.on_tick(first.wrapping_add(ticks).max(1), patience, &mut again);
        }
    }

    fn on_tick(&self, tick: u32, patience: u32, again: &mut Vec<Look<U>>) {
        let phases = self.table.phases();
        let before = self.tick.swap(tick, Ordering::Relaxed);
        let due = due(before, tick, phases);
        let missed = *due.start() < tick;
        for one in due.clone() {
            self.table.of_phase(one as usize % phases, |session| {
                session.ping(tick, &self.ping);
            });
        }
        let mut late = Vec::new();
        for look in again.extract_if(.., |look| look.at <= tick) {
            if look.session.is_late(tick, patience) {
                late.push((look.surely, look.session));
            }
        }
        for one in due {
            let phase = one.wrapping_sub(patience) as usize % phases;
            self.table.of_phase(phase, |session| {
                if session.is_late(tick, patience) {
                    late.push((false, Arc::clone(session)));
                } else if let Some(left) = off_beat(session.pinged(), tick, patience, phase, phases)
                {
                    again.push(Look {
                        at: tick.saturating_add(left),
                        surely: false,
                        session: Arc::clone(session),
                    });
                }
            });
        }
        for (surely, session) in late {
            if missed && !surely {
                again.push(Look {
                    at: tick.saturating_add(1),
                    surely: true,
                    session,
                });
            } else {
                session.close(Reason::PingTimeout);
            }
        }
        self.settle();
        self.above.tick();
    }

    /// Tells of the sessions whose connect timeout is over.
    fn settle(&self) {
        let now = Instant::now();
        while let Some(session) = self.next_settled(now) {
            let Some(session) = session.upgrade() else {
                continue;
            };
            let is_watched_again = session.out().lock().unwatch();
            if is_watched_again {
                self.watch(&session);
            } else {
                self.above.settled(&session);
            }
        }
    }

    fn next_settled(&self, now: Instant) -> Option<Weak<Session<U>>> {
        let mut young = self.young.lock();
        young.front().filter(|(due, _)| *due <= now)?;
        let (_, session) = young.pop_front()?;
        if young.is_empty() {
            young.shrink_to(64);
        }
        Some(session)
    }

    /// Calls [`Above::settled`] for this session after the connect timeout. Called again before, it is called once, later by as
    /// much again at most: a session is watched once, however often it is asked for.
    pub fn watch(&self, session: &Arc<Session<U>>) {
        if !session.out().lock().watch() {
            return;
        }
        let due = Instant::now() + self.options.connect_timeout;
        let mut young = self.young.lock();
        young.push_back((due, Arc::downgrade(session)));
    }
}

/// The ticks after `before` up to `tick`; where there are more than phases, the last ones, so that none comes twice.
fn due(before: u32, tick: u32, phases: usize) -> RangeInclusive<u32> {
    let most = u32::try_from(phases).unwrap_or(u32::MAX);
    let passed = tick.saturating_sub(before).clamp(1, most);
    tick - (passed - 1)..=tick
}

/// In how many ticks the time of a client is over that was pinged so late that the next look at its phase would come too
/// late for it.
fn off_beat(pinged: u32, tick: u32, patience: u32, phase: usize, phases: usize) -> Option<u32> {
    let left = patience.checked_sub(tick.wrapping_sub(pinged))?;
    let late = pinged != 0 && pinged as usize % phases != phase;
    (late && left > 0 && (left as usize) < phases).then_some(left)
}

/// How many ticks a client may take to answer, never less than its time.
fn patience(timeout: Duration, period: Duration) -> u32 {
    let ticks = timeout.as_nanos().div_ceil(period.as_nanos().max(1));
    u32::try_from(ticks).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_full_time_to_answer() {
        let ms = Duration::from_millis;
        assert_eq!(patience(ms(200), ms(12)), 17, "204 ms, not 192");
        assert_eq!(patience(ms(20_000), ms(1_000)), 20);
        assert_eq!(patience(ms(0), ms(1)), 1);
    }

    #[test]
    fn a_tick_that_comes_late_does_the_work_of_those_before_it() {
        assert_eq!(due(7, 8, 25), 8..=8);
        assert_eq!(due(7, 10, 25), 8..=10);
        assert_eq!(due(7, 100, 25), 76..=100, "each phase once");
    }

    #[test]
    fn who_was_pinged_late_is_looked_at_when_its_time_is_over() {
        // Of phase 5, pinged two ticks late, at 7, and looked at as if it had been on time.
        assert_eq!(off_beat(7, 22, 17, 5, 25), Some(2));
        assert_eq!(off_beat(5, 22, 17, 5, 25), None, "it was on time");
        assert_eq!(off_beat(0, 22, 17, 5, 25), None, "it has answered");
        // With more time than an interval the phase comes round again before.
        assert_eq!(off_beat(7, 15, 60, 5, 25), None);
    }
}
