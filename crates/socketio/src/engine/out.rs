//! The way out of a session: what waits for the client, who carries it, and how it ends.
//!
//! Always true:
//! 1. Packets leave in the order in which they were pushed, over whichever transport is there when they leave.
//! 2. With nothing waiting there is no queue. With more waiting than may, the session is at its end.
//! 3. An end is set once.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::Waker;

use super::parcel::Parcel;
use crate::Reason;

/// Frames of one write.
pub(super) const SLICES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Polling,
    WebSocket,
}

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// What waits is sent first, then the client is told.
    Flush(Reason),
    /// At once.
    Cut(Reason),
}

impl End {
    pub(super) fn reason(self) -> Reason {
        match self {
            Self::Flush(reason) | Self::Cut(reason) => reason,
        }
    }
}

#[derive(Debug)]
pub(super) struct Out {
    queue: Option<Box<Queue>>,
    /// Of the WebSocket's task, or of the polling request that waits.
    pub(super) waker: Option<Waker>,
    pub(super) transport: Transport,
    pub(super) end: Option<End>,
    /// Whoever carries will look again without being woken.
    pub(super) awake: bool,
    /// A polling request waits.
    pub(super) polling: bool,
    /// A polling body is being read.
    pub(super) posting: bool,
    /// A WebSocket wants to take over, …
    pub(super) probing: bool,
    /// … and has shown that it works: polling requests are no longer kept waiting.
    pub(super) probed: bool,
    /// The layer above has been told of the end, …
    pub(super) told: bool,
    /// … and the polling client.
    pub(super) said: bool,
    /// The session is in the queue of those that are watched, …
    is_watched: bool,
    /// … and has to go there again.
    is_watched_again: bool,
}

#[derive(Debug, Default)]
struct Queue {
    parcels: VecDeque<Arc<Parcel>>,
    bytes: usize,
    /// Bytes of the first parcel that are gone already.
    gone: usize,
}

impl Out {
    pub(super) fn new(transport: Transport) -> Self {
        Self {
            queue: None,
            waker: None,
            transport,
            end: None,
            awake: false,
            polling: false,
            posting: false,
            probing: false,
            probed: false,
            told: false,
            said: false,
            is_watched: false,
            is_watched_again: false,
        }
    }

    /// Queues a parcel. False if too much waits: then nothing does any more.
    pub(super) fn push(&mut self, parcel: &Arc<Parcel>, bound: usize) -> bool {
        if self.end.is_some() {
            return true;
        }
        let size = parcel.wire().len();
        let queue = self.queue.get_or_insert_default();
        if queue.bytes > 0 && queue.bytes + size > bound {
            self.finish(End::Cut(Reason::Flood));
            return false;
        }
        queue.bytes += size;
        queue.parcels.push_back(Arc::clone(parcel));
        self.wake();
        true
    }

    /// Sets the end and has whoever carries look at it.
    pub(super) fn finish(&mut self, end: End) {
        self.end = Some(end);
        if matches!(end, End::Cut(_)) {
            self.queue = None;
        }
        // Even one who waits to be able to write again.
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Whether a polling request may still come for what waits and for the goodbye.
    pub(super) fn is_fetchable(&self) -> bool {
        match self.end {
            None => true,
            Some(End::Flush(Reason::ServerCut | Reason::Shutdown)) => !self.said,
            Some(_) => false,
        }
    }

    /// Whether the session has to be put among the watched: it is not there yet.
    pub(super) fn watch(&mut self) -> bool {
        self.is_watched_again = std::mem::replace(&mut self.is_watched, true);
        !self.is_watched_again
    }

    /// The session was watched long enough. True if it is to be watched once more.
    pub(super) fn unwatch(&mut self) -> bool {
        self.is_watched = false;
        std::mem::take(&mut self.is_watched_again)
    }

    /// Queues what goes before everything else, unless nothing goes any more.
    pub(super) fn push_first(&mut self, parcel: Arc<Parcel>) {
        if matches!(self.end, Some(End::Cut(_))) {
            return;
        }
        let queue = self.queue.get_or_insert_default();
        queue.bytes += parcel.wire().len();
        queue.parcels.push_front(parcel);
    }

    /// Queues the very last parcel, after the end was set.
    pub(super) fn push_last(&mut self, parcel: Arc<Parcel>) {
        let queue = self.queue.get_or_insert_default();
        queue.bytes += parcel.wire().len();
        queue.parcels.push_back(parcel);
    }

    pub(super) fn wake(&mut self) {
        if !self.awake
            && let Some(waker) = &self.waker
        {
            self.awake = true;
            waker.wake_by_ref();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_none()
    }

    pub(super) fn bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.bytes)
    }

    /// What to write next, as far as it fits; how many slices are filled.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let Some(queue) = &self.queue else { return 0 };
        let mut gone = queue.gone;
        let mut count = 0;
        for (slice, parcel) in slices.iter_mut().zip(&queue.parcels) {
            *slice = IoSlice::new(&parcel.wire()[gone..]);
            gone = 0;
            count += 1;
        }
        count
    }

    /// So many bytes of it are written.
    pub(super) fn wrote(&mut self, mut bytes: usize) {
        let Some(queue) = &mut self.queue else { return };
        queue.bytes -= bytes.min(queue.bytes);
        while let Some(first) = queue.parcels.front() {
            let left = first.wire().len() - queue.gone;
            if bytes < left {
                queue.gone += bytes;
                return;
            }
            bytes -= left;
            queue.gone = 0;
            queue.parcels.pop_front();
        }
        self.queue = None;
    }

    /// Takes what fits into a polling body of `limit` bytes, at least one packet if there is one.
    pub(super) fn payload(&mut self, limit: usize, body: &mut Vec<u8>) {
        let Some(queue) = &mut self.queue else { return };
        while let Some(first) = queue.parcels.front() {
            if !body.is_empty() && body.len() + first.polled() > limit {
                return;
            }
            first.join(body);
            queue.bytes -= first.wire().len().min(queue.bytes);
            queue.parcels.pop_front();
        }
        self.queue = None;
    }
}
