//! The epoch: a number that rises whenever the store's data may be older than the last write.
//!
//! The origin of an epoch is a text that names the server processes that hold the data: the run id of the embedded
//! engine, or the incarnations of the primaries (`redis_backend/server_info.rs`). Another origin means that another
//! process serves the data.
//!
//! Invariants:
//! 1. The epoch rises when the server process behind the data changed (restart, failover, promotion), when the embedded
//!    engine was not closed cleanly, when the stored epoch is missing, and when a caller raises it. It never falls.
//! 2. If many nodes notice the same change, the epoch rises once: the store keeps the origin for which it was raised.
//! 3. The epoch has risen before the first command runs on a connection to the changed server.

use parking_lot::Mutex;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisResult};
use tokio::sync::watch;

use crate::clock::StoreClock;
use crate::script::{LuaScript, ScriptCall};
use crate::telemetry;

static RECONCILE_EPOCH: LuaScript = crate::script!("reconcile_epoch.lua");
static RAISE_EPOCH: LuaScript = crate::script!("raise_epoch.lua");

/// The epoch as this node knows it.
pub(crate) struct Epoch {
    key: String,
    clock: StoreClock,
    /// Whether the store was opened read-only. A read-only store does not change the stored epoch.
    read_only: bool,
    current: watch::Sender<u64>,
    /// Origin for which this node raised the epoch without the store.
    locally_raised_origin: Mutex<Option<String>>,
}

impl Epoch {
    pub(crate) fn new(prefix: &str, clock: StoreClock, read_only: bool) -> Self {
        Self {
            key: format!("{prefix}parlor:epoch"),
            clock,
            read_only,
            current: watch::Sender::new(0),
            locally_raised_origin: Mutex::default(),
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.current.subscribe()
    }

    pub(crate) fn current(&self) -> u64 {
        *self.current.borrow()
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Command that reconciles the stored epoch with an origin. It contains the source of its script.
    pub(crate) fn reconcile_cmd(&self, origin: &str) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(RECONCILE_EPOCH.source())
            .arg(1)
            .arg(&self.key)
            .arg(origin);
        cmd.arg(self.clock.now_ms()).arg(self.current());
        cmd
    }

    /// Reconciles the epoch on this connection.
    pub(crate) async fn reconcile(
        &self,
        con: &mut impl ConnectionLike,
        origin: &str,
    ) -> RedisResult<()> {
        if self.read_only {
            return Ok(());
        }
        let cmd = self.reconcile_cmd(origin);
        self.apply_reconcile_reply(cmd.query_async(con).await, origin)
    }

    /// Applies the reply of [`reconcile_cmd`](Self::reconcile_cmd).
    ///
    /// If the store cannot be written, for example because it is full, the old epoch must not stay in use. The epoch
    /// then rises on this node only.
    pub(crate) fn apply_reconcile_reply(
        &self,
        reply: RedisResult<(u64, bool)>,
        origin: &str,
    ) -> RedisResult<()> {
        match reply {
            Ok((epoch, raised)) => {
                if raised {
                    telemetry::epoch_raised(epoch, origin);
                }
                *self.locally_raised_origin.lock() = None;
                self.adopt(epoch);
                Ok(())
            }
            Err(error) if crate::classify_error(&error) == crate::StoreErrorClass::Full => {
                self.raise_locally(origin, &error.to_string());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Raises the epoch on this node only, once per origin. The next reconcile of this node raises the stored epoch
    /// above it.
    pub(crate) fn raise_locally(&self, origin: &str, reason: &str) {
        let mut raised_for = self.locally_raised_origin.lock();
        if raised_for.as_deref() == Some(origin) {
            return;
        }
        *raised_for = Some(origin.to_owned());
        let epoch = (self.current() + 1).max(self.clock.now_ms());
        telemetry::epoch_raised_locally(epoch, reason);
        self.adopt(epoch);
    }

    /// Call that raises the stored epoch, whatever the origin. Pass its reply to [`adopt`](Self::adopt).
    pub(crate) fn raise_call(&self) -> ScriptCall {
        let call = RAISE_EPOCH.keys(self.key()).arg(self.clock.now_ms());
        call.arg(self.current())
    }

    /// Command that reads the stored epoch, for the heartbeat.
    pub(crate) fn read_cmd(&self) -> Cmd {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.key).arg("epoch");
        cmd
    }

    /// Adopts the stored epoch, which another node may have raised. Returns false if it is missing or too low, and must
    /// be reconciled.
    pub(crate) fn adopt_stored(&self, found: Option<u64>) -> bool {
        match found {
            Some(epoch) if epoch >= self.current() => {
                self.adopt(epoch);
                true
            }
            _ => self.read_only,
        }
    }

    /// Adopts an epoch of the store if it is higher than the current one.
    pub(crate) fn adopt(&self, epoch: u64) {
        self.current.send_if_modified(|value| {
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
        let epoch = Epoch::new("", StoreClock::new(None), false);
        let full = || {
            let reply = redis::parse_redis_value(b"-OOM command not allowed\r\n");
            let error = reply.expect("a valid reply").extract_error();
            Err(error.expect_err("an error reply"))
        };
        let apply = |reply, origin| {
            epoch
                .apply_reconcile_reply(reply, origin)
                .expect("a full store is not an error");
            epoch.current()
        };
        let first = apply(full(), "a");
        assert!(first > 0);
        assert_eq!(
            apply(full(), "a"),
            first,
            "one origin raises the epoch once"
        );
        let second = apply(full(), "b");
        assert!(second > first);
        let third = apply(Ok((second + 1, true)), "b");
        assert!(
            apply(full(), "b") > third,
            "a full store raises the epoch again after a successful reconcile"
        );
    }
}
