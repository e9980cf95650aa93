//! Transport state of one session: the send queue, the active transport, a pending upgrade, and the close mode.
//!
//! Invariants:
//! 1. Packets leave in the order in which they were queued, also across an upgrade to WebSocket.
//! 2. An empty send queue owns no memory. A packet that finds a non-empty queue and would exceed `max_send_queue_bytes`
//!    aborts the session.
//! 3. The close mode is set once; it can only change from `Graceful` to `Abort`, and then the reason stays.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::Waker;

use super::parcel::EncodedFrame;
use crate::DisconnectReason;

/// Maximum frames per vectored write.
pub(super) const MAX_FRAMES_PER_WRITE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportKind {
    Polling,
    WebSocket,
}

/// How a session closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The send queue is sent first, then a close packet.
    Flush(DisconnectReason),
    /// The send queue is dropped.
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
    /// Waker of the connection task, or of the pending poll.
    pub(super) writer_waker: Option<Waker>,
    pub(super) active: TransportKind,
    pub(super) close_mode: Option<End>,
    /// The writer (the connection task or the pending poll) is awake and drains the queue before it parks, so no
    /// wake-up is needed.
    pub(super) writer_is_awake: bool,
    /// A GET is in progress.
    pub(super) poll_in_progress: bool,
    /// A POST is in progress.
    pub(super) post_in_progress: bool,
    /// A WebSocket has requested an upgrade.
    pub(super) probing: bool,
    /// The probe of the upgrade was answered: polls return at once.
    pub(super) probed: bool,
    /// The `SessionHandler` has been notified of the close.
    pub(super) close_reported: bool,
    /// A poll has returned the last packets after the close began.
    pub(super) close_packet_sent: bool,
    /// A connect deadline of the session is queued.
    connect_deadline_queued: bool,
    /// The connect deadline was requested again: it is queued once more when it fires.
    connect_deadline_renewed: bool,
}

#[derive(Debug, Default)]
struct SendQueue {
    frames: VecDeque<Arc<EncodedFrame>>,
    bytes: usize,
    /// Bytes of the first frame that are already written.
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

    /// Queues a frame. Returns false if the queue would exceed `bound`; the queue is then dropped and the session
    /// aborts.
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

    /// Sets the close mode and wakes the writer.
    pub(super) fn set_close_mode(&mut self, end: End) {
        self.close_mode = Some(end);
        if matches!(end, End::Cut(_)) {
            self.send_queue = None;
        }
        // The writer may be awake but wait until the connection is writable, so it is woken in any case.
        if let Some(waker) = &self.writer_waker {
            waker.wake_by_ref();
        }
    }

    /// True if polls are still answered, to deliver the rest of the queue and the close packet.
    pub(super) fn accepts_polls(&self) -> bool {
        match self.close_mode {
            None => true,
            Some(End::Flush(
                DisconnectReason::ServerDisconnect | DisconnectReason::ServerShutdown,
            )) => !self.close_packet_sent,
            Some(_) => false,
        }
    }

    /// Requests a connect deadline. Returns true if the caller has to queue it; otherwise the queued one is renewed.
    pub(super) fn mark_connect_deadline(&mut self) -> bool {
        self.connect_deadline_renewed = std::mem::replace(&mut self.connect_deadline_queued, true);
        !self.connect_deadline_renewed
    }

    /// The queued connect deadline has fired. Returns true if it was renewed and has to be queued again.
    pub(super) fn clear_connect_deadline(&mut self) -> bool {
        self.connect_deadline_queued = false;
        std::mem::take(&mut self.connect_deadline_renewed)
    }

    /// Queues a frame before all others, unless the session aborts.
    pub(super) fn enqueue_front(&mut self, parcel: Arc<EncodedFrame>) {
        if matches!(self.close_mode, Some(End::Cut(_))) {
            return;
        }
        let queue = self.send_queue.get_or_insert_default();
        queue.bytes += parcel.wire().len();
        queue.frames.push_front(parcel);
    }

    /// Queues the last frame, after the close mode was set.
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

    /// Fills slices for the next write. Returns the number of filled slices.
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

    /// Removes bytes that were written.
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

    /// Moves packets into a polling body of at most `limit` bytes, but at least one packet if there is one.
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
