//! Pings and deadlines, by one task for all sessions.
//!
//! Always true: each tick looks at the sessions of one phase for pings and of one for answers, never at all of them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::session::Session;
use super::{Above, Engine};
use crate::Reason;

impl<U: Above> Engine<U> {
    /// The timers. Never ends.
    pub async fn run(self: Arc<Self>) {
        let phases = u32::try_from(self.table.phases()).unwrap_or(u32::MAX);
        let period = (self.options.ping_interval / phases).max(Duration::from_millis(1));
        let patience = patience(self.options.ping_timeout, period);
        let mut ticks = interval_at(Instant::now() + period, period);
        // Ticks that come too late are not made up for: clients have their full time after a stall, too.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.on_tick(patience);
        }
    }

    fn on_tick(&self, patience: u32) {
        let tick = self
            .tick
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
            .max(1);
        let phases = self.table.phases();
        self.table.of_phase(tick as usize % phases, |session| {
            session.ping(tick, &self.ping);
        });
        let mut late = Vec::new();
        self.table
            .of_phase(tick.wrapping_sub(patience) as usize % phases, |session| {
                if session.is_late(tick, patience) {
                    late.push(Arc::clone(session));
                }
            });
        for session in late {
            session.close(Reason::PingTimeout);
        }
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
        self.above.tick();
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
}
