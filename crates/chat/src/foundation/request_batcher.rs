//! Combines concurrent requests into one database call, because the round trip costs more than the work.
//!
//! Each caller queues its request. The caller that gets the leader lock takes the whole queue, runs one call for all of
//! it and sends each caller its response.
//!
//! Invariants:
//! 1. A response comes from a call that started after the request was queued.
//! 2. A caller waits for at most the running batch and its own batch.
//! 3. If the leader fails or is cancelled, the other callers of its batch get `None` and run their request alone.

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Queue of requests. A batch leaves out the requests of cancelled callers.
pub(crate) struct RequestBatcher<Q, A> {
    queue: Mutex<Vec<(Q, oneshot::Sender<A>)>>,
    /// Held by the caller that runs a batch.
    leader_lock: tokio::sync::Mutex<()>,
}

impl<Q, A> Default for RequestBatcher<Q, A> {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            leader_lock: tokio::sync::Mutex::default(),
        }
    }
}

impl<Q, A> RequestBatcher<Q, A> {
    /// Submits a request and waits for the response. If this caller becomes the leader, `run_batch` is called with all
    /// queued requests and returns the responses in their order.
    pub(crate) async fn submit(
        &self,
        request: Q,
        run_batch: impl AsyncFnOnce(&[Q]) -> Vec<Option<A>>,
    ) -> Option<A> {
        let (sender, mut receiver) = oneshot::channel();
        self.queue.lock().push((request, sender));
        tokio::select! {
            biased;
            // A caller that has its response must not wait for the lock and run another batch.
            response = &mut receiver => return response.ok(),
            _guard = self.leader_lock.lock() => {
                let mut batch = std::mem::take(&mut *self.queue.lock());
                batch.retain(|(_, sender)| !sender.is_closed());
                let (requests, senders): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
                let responses = run_batch(&requests).await;
                for (sender, response) in senders.into_iter().zip(responses) {
                    // The receiver may have been cancelled meanwhile.
                    let _ = response.map(|response| sender.send(response));
                }
            }
        }
        receiver.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Notify;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;

    /// Returns each request with the size of its batch. Requests above 100 get no response.
    async fn with_count(requests: &[u32]) -> Vec<Option<(u32, usize)>> {
        let answer = |it: &u32| (*it <= 100).then_some((*it, requests.len()));
        requests.iter().map(answer).collect()
    }

    #[tokio::test]
    async fn requests_that_arrive_during_a_batch_form_the_next_batch() {
        let (batcher, go) = (Arc::new(RequestBatcher::default()), Arc::new(Notify::new()));
        let first = tokio::spawn({
            let (batcher, go) = (Arc::clone(&batcher), Arc::clone(&go));
            async move {
                let slow = async |requests: &[u32]| {
                    go.notified().await;
                    with_count(requests).await
                };
                batcher.submit(0, slow).await
            }
        });
        yield_now().await;
        let others = [1, 2, 300, 4].map(|request| {
            let batcher = Arc::clone(&batcher);
            tokio::spawn(async move { batcher.submit(request, with_count).await })
        });
        yield_now().await;
        go.notify_one();
        assert_eq!(first.await.unwrap(), Some((0, 1)));
        let mut answers = Vec::new();
        for other in others {
            answers.push(other.await.unwrap());
        }
        assert_eq!(answers, [Some((1, 4)), Some((2, 4)), None, Some((4, 4))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_does_not_wait_for_later_batches() {
        let batcher = Arc::new(RequestBatcher::default());
        let (go, stuck) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let submit = |request: u32, wait: &Arc<Notify>| {
            let (batcher, wait) = (Arc::clone(&batcher), Arc::clone(wait));
            tokio::spawn(async move {
                let slow = async |requests: &[u32]| {
                    wait.notified().await;
                    with_count(requests).await
                };
                batcher.submit(request, slow).await
            })
        };
        let first = submit(1, &go);
        yield_now().await;
        let [second, third] = [2, 3].map(|request| submit(request, &go));
        yield_now().await;
        go.notify_one();
        assert_eq!(first.await.unwrap(), Some((1, 1)));
        // These requests arrive while the batch of the second and third request runs.
        let late = [4, 5].map(|request| submit(request, &stuck));
        yield_now().await;
        go.notify_one();
        assert_eq!(second.await.unwrap(), Some((2, 2)));
        // Would time out if the third caller waited for the batch of the late requests.
        let third = timeout(Duration::from_secs(1), third).await;
        assert_eq!(
            third.expect("the third caller has its response").unwrap(),
            Some((3, 2))
        );
        stuck.notify_one();
        for late in late {
            assert!(late.await.unwrap().is_some());
        }
    }

    #[tokio::test]
    async fn a_cancelled_batch_does_not_block_the_next_batch() {
        let batcher = Arc::new(RequestBatcher::default());
        let cancelled = tokio::spawn({
            let batcher = Arc::clone(&batcher);
            async move {
                batcher
                    .submit(1, async |_: &[u32]| std::future::pending().await)
                    .await
            }
        });
        let remaining = tokio::spawn({
            let batcher = Arc::clone(&batcher);
            async move { batcher.submit(2, with_count).await }
        });
        yield_now().await;
        cancelled.abort();
        assert_eq!(remaining.await.unwrap(), Some((2, 1)));
        assert_eq!(batcher.submit(3, async |_: &[u32]| Vec::new()).await, None);
        assert_eq!(batcher.submit(4, with_count).await, Some((4, 1)));
    }
}
