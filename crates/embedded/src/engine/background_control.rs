//! Requests to the background thread, and what it reports.
//!
//! Invariants:
//! 1. A flush request is answered by an attempt that began after the request.
//! 2. The thread reports its final result only after it has released the folder lock.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use tokio::sync::{oneshot, watch};

/// Result of a flush: the reason if it failed.
pub(crate) type FlushResult = Result<(), Arc<str>>;

/// Request to the background thread.
pub(crate) enum BackgroundRequest {
    /// Flush now, and send the result if a caller waits for it.
    Flush(Option<oneshot::Sender<FlushResult>>),
    /// End after a last flush.
    Stop,
}

/// The callers' side of the background thread.
pub(crate) struct BackgroundControl {
    requests: Sender<BackgroundRequest>,
    pub flush_count: watch::Sender<u64>,
    /// Result of the last flush of a thread that has ended.
    pub final_result: watch::Sender<Option<FlushResult>>,
}

impl BackgroundControl {
    /// Creates the callers' side, and the requests for the thread.
    pub fn new() -> (Self, Receiver<BackgroundRequest>) {
        let (requests, receiver) = mpsc::channel();
        let control = Self {
            requests,
            flush_count: watch::Sender::new(0),
            final_result: watch::Sender::new(None),
        };
        (control, receiver)
    }

    /// Requests something. A thread that has ended ignores it.
    pub fn request(&self, request: BackgroundRequest) {
        let _ = self.requests.send(request);
    }

    /// Requests a flush and waits for the result of the attempt.
    pub async fn flush(&self) -> FlushResult {
        let (sender, result) = oneshot::channel();
        self.request(BackgroundRequest::Flush(Some(sender)));
        match result.await {
            Ok(result) => result,
            // The thread ends. No write is accepted any more, so its last flush covers this request.
            Err(_) => self.wait_until_stopped().await,
        }
    }

    /// Waits until the thread has ended. Returns the result of its last flush.
    pub async fn wait_until_stopped(&self) -> FlushResult {
        let mut result = self.final_result.subscribe();
        // `self` owns the sender, so `wait_for` ends only when there is a result.
        let result = result.wait_for(Option::is_some).await;
        result.map_or(Ok(()), |result| result.clone().unwrap_or(Ok(())))
    }
}
