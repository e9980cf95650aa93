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

use super::encoded_frame::EncodedFrame;
use crate::DisconnectReason;

/// Maximum frames per vectored write.
pub(super) const MAX_FRAMES_PER_WRITE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportKind {
    Polling,
    WebSocket,
}

/// Upgrade from polling to WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpgradeState {
    None,
    /// A WebSocket has requested the upgrade.
    Requested,
    /// The probe of the WebSocket was answered: polls return at once.
    Probed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectDeadline {
    None,
    /// A deadline of the session is queued.
    Queued,
    /// The deadline was requested again: it is queued once more when it fires.
    Renewed,
}

/// How a session closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseMode {
    /// The send queue is sent first, then a close packet.
    Graceful(DisconnectReason),
    /// The send queue is dropped.
    Abort(DisconnectReason),
}

impl CloseMode {
    pub(super) fn reason(self) -> DisconnectReason {
        match self {
            Self::Graceful(reason) | Self::Abort(reason) => reason,
        }
    }
}

#[derive(Debug)]
pub(super) struct TransportState {
    send_queue: Option<Box<SendQueue>>,
    /// Waker of the connection task, or of the pending poll.
    pub(super) writer_waker: Option<Waker>,
    pub(super) active: TransportKind,
    pub(super) close_mode: Option<CloseMode>,
    /// The writer (the connection task or the pending poll) is awake and drains the queue before it parks, so no
    /// wake-up is needed.
    pub(super) writer_is_awake: bool,
    /// A GET is in progress.
    pub(super) poll_in_progress: bool,
    /// A POST is in progress.
    pub(super) post_in_progress: bool,
    pub(super) upgrade: UpgradeState,
    /// The `SessionHandler` has been notified of the close.
    pub(super) close_reported: bool,
    /// A poll has returned the last packets after the close began.
    pub(super) close_packet_sent: bool,
    connect_deadline: ConnectDeadline,
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
            upgrade: UpgradeState::None,
            close_reported: false,
            close_packet_sent: false,
            connect_deadline: ConnectDeadline::None,
        }
    }

    /// Queues a frame. Returns false if the queue would exceed `max_bytes`; the queue is then dropped and the session
    /// aborts.
    pub(super) fn enqueue(&mut self, frame: &Arc<EncodedFrame>, max_bytes: usize) -> bool {
        if self.close_mode.is_some() {
            return true;
        }
        let size = frame.bytes().len();
        let queue = self.send_queue.get_or_insert_default();
        if queue.bytes > 0 && queue.bytes + size > max_bytes {
            self.set_close_mode(CloseMode::Abort(DisconnectReason::SendQueueOverflow));
            return false;
        }
        queue.bytes += size;
        queue.frames.push_back(Arc::clone(frame));
        self.wake_writer();
        true
    }

    /// Sets the close mode and wakes the writer.
    pub(super) fn set_close_mode(&mut self, mode: CloseMode) {
        self.close_mode = Some(mode);
        if matches!(mode, CloseMode::Abort(_)) {
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
            Some(CloseMode::Graceful(
                DisconnectReason::ServerDisconnect | DisconnectReason::ServerShutdown,
            )) => !self.close_packet_sent,
            Some(_) => false,
        }
    }

    /// Requests a connect deadline. Returns true if the caller has to queue it; otherwise the queued one is renewed.
    pub(super) fn mark_connect_deadline(&mut self) -> bool {
        let is_first = self.connect_deadline == ConnectDeadline::None;
        self.connect_deadline = match is_first {
            true => ConnectDeadline::Queued,
            false => ConnectDeadline::Renewed,
        };
        is_first
    }

    /// The queued connect deadline has fired. Returns true if it was renewed and has to be queued again.
    pub(super) fn clear_connect_deadline(&mut self) -> bool {
        let fired = std::mem::replace(&mut self.connect_deadline, ConnectDeadline::None);
        fired == ConnectDeadline::Renewed
    }

    /// Queues a frame before all others, unless the session aborts.
    pub(super) fn enqueue_front(&mut self, frame: Arc<EncodedFrame>) {
        if matches!(self.close_mode, Some(CloseMode::Abort(_))) {
            return;
        }
        let queue = self.send_queue.get_or_insert_default();
        queue.bytes += frame.bytes().len();
        queue.frames.push_front(frame);
    }

    /// Queues the last frame, after the close mode was set.
    pub(super) fn enqueue_after_close(&mut self, frame: Arc<EncodedFrame>) {
        let queue = self.send_queue.get_or_insert_default();
        queue.bytes += frame.bytes().len();
        queue.frames.push_back(frame);
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
        let mut written = queue.front_bytes_written;
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(&queue.frames) {
            *slice = IoSlice::new(&frame.bytes()[written..]);
            written = 0;
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
            let left = first.bytes().len() - queue.front_bytes_written;
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
            queue.bytes -= first.bytes().len().min(queue.bytes);
            queue.frames.pop_front();
        }
        self.send_queue = None;
    }
}
