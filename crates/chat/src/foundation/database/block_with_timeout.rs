//! Waits for a future on a thread that has no runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Wakes the thread that waits for the future.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until the future is ready; `None` if this takes longer than the timeout. The future must not need
/// the timers or the I/O of a runtime.
pub(super) fn block_with_timeout<T>(
    timeout: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let start = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = timeout.checked_sub(start.elapsed())?;
        thread::park_timeout(left);
    }
}
