//! Detached sockets, in the order of their deadlines.
//!
//! Invariant: the code that removes a socket decides alone whether it is recovered, detached again or ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Socket, SocketHandler};
use crate::memory_budget::MemoryBudget;
use crate::{DisconnectReason, RecoveryOptions, SocketIoOptions};

/// Number of keys per millisecond.
const KEYS_PER_MS: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct DetachedSockets<H: SocketHandler> {
    pub(super) recovery: Option<RecoveryOptions>,
    /// Bytes of recoverable frames and of replay buffers.
    pub(super) replay_budget: MemoryBudget,
    max_sockets: usize,
    started_at: Instant,
    inner: Mutex<Inner<H>>,
}

#[derive(Debug)]
struct Inner<H: SocketHandler> {
    by_deadline: BTreeMap<u64, Arc<Socket<H>>>,
    /// Sockets that the handler has disconnected since the last tick.
    ended_by_handler: Vec<(Arc<Socket<H>>, DisconnectReason)>,
    next_key: u64,
    is_closed: bool,
}

impl<H: SocketHandler> DetachedSockets<H> {
    pub(super) fn new(options: &SocketIoOptions) -> Self {
        Self {
            recovery: options.recovery,
            replay_budget: MemoryBudget::new(options.recovery.map_or(0, |it| it.max_total_bytes)),
            max_sockets: options.max_sessions,
            started_at: Instant::now(),
            inner: Mutex::new(Inner {
                by_deadline: BTreeMap::new(),
                ended_by_handler: Vec::new(),
                next_key: 0,
                is_closed: false,
            }),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Seconds since the start of the server.
    pub(super) fn elapsed_secs(&self) -> u32 {
        u32::try_from(self.started_at.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// Deadline of a socket that is detached now, in milliseconds since the start of the server.
    pub(super) fn new_deadline(&self) -> u64 {
        let window = self
            .recovery
            .map_or(0, |recovery| recovery.window.as_millis());
        self.elapsed_ms() + u64::try_from(window).unwrap_or(u64::MAX / KEYS_PER_MS / 2)
    }

    /// Inserts a socket and returns its key. `None` if the maximum is reached, or after [`DetachedSockets::close`].
    pub(super) fn insert(&self, socket: &Arc<Socket<H>>, deadline: u64) -> Option<u64> {
        let mut inner = self.inner.lock();
        if inner.is_closed || inner.by_deadline.len() >= self.max_sockets {
            return None;
        }
        inner.next_key = (inner.next_key + 1) % KEYS_PER_MS;
        let key = deadline * KEYS_PER_MS + inner.next_key;
        inner.by_deadline.insert(key, Arc::clone(socket));
        Some(key)
    }

    /// Removes a socket, if it is still there. Returns its deadline.
    pub(super) fn remove(&self, key: u64) -> Option<u64> {
        let removed = self.inner.lock().by_deadline.remove(&key);
        removed.map(|_| key / KEYS_PER_MS)
    }

    /// Removes a socket, which the next [`DetachedSockets::take_expired`] returns.
    pub(super) fn end_on_next_tick(&self, key: u64, reason: DisconnectReason) {
        let mut inner = self.inner.lock();
        if let Some(socket) = inner.by_deadline.remove(&key) {
            inner.ended_by_handler.push((socket, reason));
        }
    }

    /// Removes the sockets whose deadline has passed and those that the handler disconnected, the latter with their
    /// reason.
    pub(super) fn take_expired(&self) -> Vec<(Arc<Socket<H>>, Option<DisconnectReason>)> {
        let mut inner = self.inner.lock();
        let later = inner
            .by_deadline
            .split_off(&(self.elapsed_ms() * KEYS_PER_MS));
        let expired = std::mem::replace(&mut inner.by_deadline, later);
        let ended = std::mem::take(&mut inner.ended_by_handler);
        drop(inner);
        let expired = expired.into_values().map(|socket| (socket, None));
        let ended = ended
            .into_iter()
            .map(|(socket, reason)| (socket, Some(reason)));
        expired.chain(ended).collect()
    }

    /// Removes all sockets and rejects further ones.
    pub(super) fn close(&self) -> Vec<Arc<Socket<H>>> {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        let ended = std::mem::take(&mut inner.ended_by_handler)
            .into_iter()
            .map(|(socket, _)| socket);
        let detached = std::mem::take(&mut inner.by_deadline);
        detached.into_values().chain(ended).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.inner.lock().by_deadline.len()
    }
}
