//! The epoch: a number that rises whenever the store's data may be older than what was written to it.
//!
//! Always true:
//! 1. It rises when the server process behind the data changed (restart, failover, promotion), when the embedded
//!    engine was not closed cleanly, when it is missing, and when somebody asks for it. It never falls.
//! 2. Many nodes that notice one change raise it once: the store remembers for which origin it was raised.
//! 3. It has risen before the first command runs on a connection to the changed server.

use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::script::{Call, Script};
use crate::telemetry::Event;

static SETTLE: Script = crate::script!("epoch.lua");
static RAISE: Script = crate::script!("raise.lua");

/// The epoch as this node knows it.
pub(crate) struct Epoch {
    key: String,
    clock: Clock,
    /// Whoever only looks leaves the epoch alone.
    read_only: bool,
    value: watch::Sender<u64>,
    /// The origin for which it was raised here and not yet in the store.
    unsaved: Mutex<Option<String>>,
}

impl Epoch {
    pub(crate) fn new(prefix: &str, clock: Clock, read_only: bool) -> Self {
        Self {
            key: format!("{prefix}parlor:epoch"),
            clock,
            read_only,
            value: watch::Sender::new(0),
            unsaved: Mutex::default(),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.value.subscribe()
    }

    pub(crate) fn now(&self) -> u64 {
        *self.value.borrow()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The command that settles the epoch for an origin. It brings its script along.
    pub(crate) fn settle_cmd(&self, origin: &str) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(SETTLE.source()).arg(1).arg(&self.key).arg(origin);
        cmd.arg(self.clock.now_ms()).arg(*self.value.borrow());
        cmd
    }

    /// Settles the epoch on this connection.
    pub(crate) async fn settle(
        &self,
        con: &mut impl ConnectionLike,
        origin: &str,
    ) -> RedisResult<()> {
        if self.read_only {
            return Ok(());
        }
        let cmd = self.settle_cmd(origin);
        self.settled(cmd.query_async(con).await, origin)
    }

    /// Takes the reply of [`settle_cmd`](Self::settle_cmd).
    ///
    /// A store that cannot be written to (full, say) must not keep its old epoch in use: it rises here at least.
    pub(crate) fn settled(&self, reply: RedisResult<(u64, bool)>, origin: &str) -> RedisResult<()> {
        match reply {
            Ok((epoch, raised)) => {
                if raised {
                    Event::EpochRaised { epoch, origin }.emit();
                }
                *self.unsaved.lock() = None;
                self.saw(epoch);
                Ok(())
            }
            Err(error) if crate::fault(&error) == crate::Fault::Full => {
                self.raise_here(origin, &error.to_string());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Raises the epoch for this node alone, once for each origin; whoever settles it next raises it above that.
    pub(crate) fn raise_here(&self, origin: &str, reason: &str) {
        let mut unsaved = self.unsaved.lock();
        if unsaved.as_deref() == Some(origin) {
            return;
        }
        *unsaved = Some(origin.to_owned());
        let epoch = (*self.value.borrow() + 1).max(self.clock.now_ms());
        Event::EpochUnsaved { epoch, reason }.emit();
        self.saw(epoch);
    }

    /// A call that raises the epoch, whoever holds the data; its reply is to be [seen](Self::saw).
    pub(crate) fn raise(&self) -> Call {
        let call = RAISE.keys(self.key()).arg(self.clock.now_ms());
        call.arg(*self.value.borrow())
    }

    /// The command that reads the epoch, for the heartbeat.
    pub(crate) fn read_cmd(&self) -> Cmd {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.key).arg("epoch");
        cmd
    }

    /// Takes what another node may have raised. False if the epoch in the store is gone or behind: settle again.
    pub(crate) fn take(&self, found: Option<u64>) -> bool {
        match found {
            Some(epoch) if epoch >= *self.value.borrow() => {
                self.saw(epoch);
                true
            }
            _ => self.read_only,
        }
    }

    /// Takes an epoch of the store.
    pub(crate) fn saw(&self, epoch: u64) {
        self.value.send_if_modified(|value| {
            let higher = epoch > *value;
            *value = epoch.max(*value);
            higher
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_cannot_be_written_to_raises_the_epoch_once_for_each_origin() {
        let epoch = Epoch::new("", Clock::new(None), false);
        let full = || {
            let reply = redis::parse_redis_value(b"-OOM command not allowed\r\n");
            let error = reply.expect("a valid reply").extract_error();
            Err(error.expect_err("an error reply"))
        };
        let settled = |reply, origin| {
            epoch
                .settled(reply, origin)
                .expect("a full store is no error here");
            *epoch.watch().borrow()
        };
        let first = settled(full(), "a");
        assert!(first > 0);
        assert_eq!(
            settled(full(), "a"),
            first,
            "told again with each heartbeat"
        );
        let second = settled(full(), "b");
        assert!(second > first);
        let third = settled(Ok((second + 1, true)), "b");
        assert!(
            settled(full(), "b") > third,
            "lost again after it was written"
        );
    }
}
