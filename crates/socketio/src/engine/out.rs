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

use super::parcel::EncodedFrame;
use crate::DisconnectReason;

/// Frames of one write.
pub(super) const MAX_FRAMES_PER_WRITE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportKind {
    Polling,
    WebSocket,
}

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// What waits is sent first, then the client is told.
    Flush(DisconnectReason),
    /// At once.
    Cut(DisconnectReason),
}

impl End {
    pub(super) fn reason(self) -> DisconnectReason {
        match self {
            Self::Flush(reason) | Self::Cut(reason) => reason,
        }
    }
}

#[derive(Debug)]
pub(super) struct TransportState {
    send_queue: Option<Box<SendQueue>>,
    /// Of the WebSocket's task, or of the polling request that waits.
    pub(super) writer_waker: Option<Waker>,
    pub(super) active: TransportKind,
    pub(super) close_mode: Option<End>,
    /// Whoever carries will look again without being woken.
    pub(super) writer_is_awake: bool,
    /// A polling request waits.
    pub(super) poll_in_progress: bool,
    /// A polling body is being read.
    pub(super) post_in_progress: bool,
    /// A WebSocket wants to take over, …
    pub(super) probing: bool,
    /// … and has shown that it works: polling requests are no longer kept waiting.
    pub(super) probed: bool,
    /// The layer above has been told of the end, …
    pub(super) close_reported: bool,
    /// … and the polling client.
    pub(super) close_packet_sent: bool,
    /// The session is in the queue of those that are watched, …
    connect_deadline_queued: bool,
    /// … and has to go there again.
    connect_deadline_renewed: bool,
}

#[derive(Debug, Default)]
struct SendQueue {
    frames: VecDeque<Arc<EncodedFrame>>,
    bytes: usize,
    /// Bytes of the first parcel that are gone already.
    front_bytes_written: usize,
}

impl TransportState {
    pub(super) fn new(active: TransportKind) -> Self {
        Self {
            send_queue: None,
            writer_waker: None,
            active,
            close_mode: None,
            writer_is_awake: false,
            poll_in_progress: false,
            post_in_progress: false,
            probing: false,
            probed: false,
            close_reported: false,
            close_packet_sent: false,
            connect_deadline_queued: false,
            connect_deadline_renewed: false,
        }
    }

    /// Queues a parcel. False if too much waits: then nothing does any more.
    pub(super) fn enqueue(&mut self, parcel: &Arc<EncodedFrame>, bound: usize) -> bool {
        if self.close_mode.is_some() {
            return true;
        }
        let size = parcel.wire().len();
        let queue = self.send_queue.get_or_insert_default();
        if queue.bytes > 0 && queue.bytes + size > bound {
            self.set_close_mode(End::Cut(DisconnectReason::SendQueueOverflow));
            return false;
        }
        queue.bytes += size;
        queue.frames.push_back(Arc::clone(parcel));
        self.wake_writer();
        true
    }

    /// Sets the end and has whoever carries look at it.
    pub(super) fn set_close_mode(&mut self, end: End) {
        self.close_mode = Some(end);
        if matches!(end, End::Cut(_)) {
            self.send_queue = None;
        }
        // Even one who waits to be able to write again.
        if let Some(waker) = &self.writer_waker {
            waker.wake_by_ref();
        }
    }

    /// Whether a polling request may still come for what waits and for the goodbye.
    pub(super) fn accepts_polls(&self) -> bool {
        match self.close_mode {
            None => true,
            Some(End::Flush(
                DisconnectReason::ServerDisconnect | DisconnectReason::ServerShutdown,
            )) => !self.close_packet_sent,
            Some(_) => false,
        }
    }

    /// Whether the session has to be put among the watched: it is not there yet.
    pub(super) fn mark_connect_deadline(&mut self) -> bool {
        self.connect_deadline_renewed = std::mem::replace(&mut self.connect_deadline_queued, true);
        !self.connect_deadline_renewed
    }

    /// The session was watched long enough. True if it is to be watched once more.
    pub(super) fn clear_connect_deadline(&mut self) -> bool {
        self.connect_deadline_queued = false;
        std::mem::take(&mut self.connect_deadline_renewed)
    }

    /// Queues what goes before everything else, unless nothing goes any more.
    pub(super) fn enqueue_front(&mut self, parcel: Arc<EncodedFrame>) {
        if matches!(self.close_mode, Some(End::Cut(_))) {
            return;
        }
        let queue = self.send_queue.get_or_insert_default();
        queue.bytes += parcel.wire().len();
        queue.frames.push_front(parcel);
    }

    /// Queues the very last parcel, after the end was set.
    pub(super) fn enqueue_after_close(&mut self, parcel: Arc<EncodedFrame>) {
        let queue = self.send_queue.get_or_insert_default();
        queue.bytes += parcel.wire().len();
        queue.frames.push_back(parcel);
    }

    pub(super) fn wake_writer(&mut self) {
        if !self.writer_is_awake
            && let Some(waker) = &self.writer_waker
        {
            self.writer_is_awake = true;
            waker.wake_by_ref();
        }
    }

    pub(super) fn is_send_queue_empty(&self) -> bool {
        self.send_queue.is_none()
    }

    pub(super) fn send_queue_bytes(&self) -> usize {
        self.send_queue.as_ref().map_or(0, |queue| queue.bytes)
    }

    /// What to write next, as far as it fits; how many slices are filled.
    pub(super) fn fill_io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let Some(queue) = &self.send_queue else {
            return 0;
        };
        let mut gone = queue.front_bytes_written;
        let mut count = 0;
        for (slice, parcel) in slices.iter_mut().zip(&queue.frames) {
            *slice = IoSlice::new(&parcel.wire()[gone..]);
            gone = 0;
            count += 1;
        }
        count
    }

    /// So many bytes of it are written.
    pub(super) fn consume_written(&mut self, mut bytes: usize) {
        let Some(queue) = &mut self.send_queue else {
            return;
        };
        queue.bytes -= bytes.min(queue.bytes);
        while let Some(first) = queue.frames.front() {
            let left = first.wire().len() - queue.front_bytes_written;
            if bytes < left {
                queue.front_bytes_written += bytes;
                return;
            }
            bytes -= left;
            queue.front_bytes_written = 0;
            queue.frames.pop_front();
        }
        self.send_queue = None;
    }

    /// Takes what fits into a polling body of `limit` bytes, at least one packet if there is one.
    pub(super) fn drain_into_polling_body(&mut self, limit: usize, body: &mut Vec<u8>) {
        let Some(queue) = &mut self.send_queue else {
            return;
        };
        while let Some(first) = queue.frames.front() {
            if !body.is_empty() && body.len() + first.polling_len() > limit {
                return;
            }
            first.append_to_polling_body(body);
            queue.bytes -= first.wire().len().min(queue.bytes);
            queue.frames.pop_front();
        }
        self.send_queue = None;
    }
}
