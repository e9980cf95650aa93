//! Iterates over keys in bounded steps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::{Cmd, RedisResult, Value};

use crate::redis_backend::primary_pool::PrimaryPool;
use crate::store::StoreBackend;

/// Iterates over the keys that match a pattern, with the guarantees of `SCAN`: a key that exists throughout is returned
/// at least once. On a Cluster the iteration covers the primaries that existed when it began.
pub struct KeyScan {
    backend: StoreBackend,
    request_timeout: Duration,
    pattern: String,
    count: usize,
    cursor: u64,
    /// Pools of the primaries that are left to scan. Empty if the store is not a Cluster.
    remaining_pools: VecDeque<Arc<PrimaryPool>>,
    done: bool,
}

impl KeyScan {
    pub(crate) fn new(
        backend: StoreBackend,
        request_timeout: Duration,
        pattern: &str,
        count: usize,
    ) -> Self {
        let remaining_pools = match &backend {
            StoreBackend::Redis(redis) => redis.cluster_pools().into(),
            StoreBackend::Embedded(_) => VecDeque::new(),
        };
        Self {
            backend,
            request_timeout,
            pattern: pattern.to_owned(),
            count: count.max(1),
            cursor: 0,
            remaining_pools,
            done: false,
        }
    }

    /// Returns the next keys: about `count` of them, sometimes none, and `None` at the end. After an error the step can
    /// be repeated.
    pub async fn next(&mut self) -> RedisResult<Option<Vec<Bytes>>> {
        if self.done {
            return Ok(None);
        }
        let mut cmd = redis::cmd("SCAN");
        cmd.arg(self.cursor)
            .arg("MATCH")
            .arg(&self.pattern)
            .arg("COUNT")
            .arg(self.count);
        let (cursor, keys): (u64, Vec<Vec<u8>>) =
            redis::from_redis_value(self.scan_step(&cmd).await?)?;
        self.cursor = cursor;
        if cursor == 0 {
            self.remaining_pools.pop_front();
            self.done = self.remaining_pools.is_empty();
        }
        Ok(Some(keys.into_iter().map(Bytes::from).collect()))
    }

    async fn scan_step(&self, cmd: &Cmd) -> RedisResult<Value> {
        let reply = match self.remaining_pools.front() {
            None => self.backend.execute(cmd, true).await?,
            Some(pool) => {
                let deadline = Instant::now() + self.request_timeout;
                let reply = pool.command(cmd, deadline).await;
                reply.map_err(|failed| failed.error)?
            }
        };
        reply.extract_error()
    }
}
