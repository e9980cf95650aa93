//! Sockets that wait for their client to come back, in the order in which their time ends.
//!
//! Always true: who takes a socket off the shelf owns what becomes of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Socket;
use crate::account::Account;
use crate::{Options, Reason, Recovery};

/// Keys of one millisecond.
const PER_MS: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Shelf<S> {
    pub(super) recovery: Option<Recovery>,
    /// What frames and rings take, …
    pub(super) account: Account,
    /// … and may take.
    pub(super) kept: usize,
    most: usize,
    started: Instant,
    inner: Mutex<Inner<S>>,
}

#[derive(Debug)]
struct Inner<S> {
    waiting: BTreeMap<u64, Arc<Socket<S>>>,
    /// Those that the application has ended meanwhile.
    doomed: Vec<(Arc<Socket<S>>, Reason)>,
    next: u64,
    is_closed: bool,
}

impl<S> Shelf<S> {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            recovery: options.recovery,
            account: Account::default(),
            kept: options.kept,
            most: options.most,
            started: Instant::now(),
            inner: Mutex::new(Inner {
                waiting: BTreeMap::new(),
                doomed: Vec::new(),
                next: 0,
                is_closed: false,
            }),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Seconds since the start.
    pub(super) fn seconds(&self) -> u32 {
        u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// When the time of one that is lost now will end.
    pub(super) fn deadline(&self) -> u64 {
        let window = self
            .recovery
            .map_or(0, |recovery| recovery.window.as_millis());
        self.now() + u64::try_from(window).unwrap_or(u64::MAX / PER_MS / 2)
    }

    /// Puts a socket on, with the key to get it back. `None` if the shelf is full.
    pub(super) fn put(&self, socket: &Arc<Socket<S>>, deadline: u64) -> Option<u64> {
        let mut inner = self.inner.lock();
        if inner.is_closed || inner.waiting.len() >= self.most {
            return None;
        }
        inner.next = (inner.next + 1) % PER_MS;
        let key = deadline * PER_MS + inner.next;
        inner.waiting.insert(key, Arc::clone(socket));
        Some(key)
    }

    /// Takes a socket off, if nobody has; with the deadline it had.
    pub(super) fn take(&self, key: u64) -> Option<u64> {
        let taken = self.inner.lock().waiting.remove(&key);
        taken.map(|_| key / PER_MS)
    }

    /// Takes a socket off to be ended by the next call of [`Shelf::ended`].
    pub(super) fn doom(&self, key: u64, reason: Reason) {
        let mut inner = self.inner.lock();
        if let Some(socket) = inner.waiting.remove(&key) {
            inner.doomed.push((socket, reason));
        }
    }

    /// Takes off those whose time is over and those that are doomed, with the reason where there is one.
    pub(super) fn ended(&self) -> Vec<(Arc<Socket<S>>, Option<Reason>)> {
        let mut inner = self.inner.lock();
        let later = inner.waiting.split_off(&(self.now() * PER_MS));
        let over = std::mem::replace(&mut inner.waiting, later);
        let doomed = std::mem::take(&mut inner.doomed);
        drop(inner);
        let over = over.into_values().map(|socket| (socket, None));
        let doomed = doomed
            .into_iter()
            .map(|(socket, reason)| (socket, Some(reason)));
        over.chain(doomed).collect()
    }

    /// Takes off all, and takes no more on.
    pub(super) fn clear(&self) -> Vec<Arc<Socket<S>>> {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        let doomed = std::mem::take(&mut inner.doomed)
            .into_iter()
            .map(|(socket, _)| socket);
        let all = std::mem::take(&mut inner.waiting);
        all.into_values().chain(doomed).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.inner.lock().waiting.len()
    }
}
