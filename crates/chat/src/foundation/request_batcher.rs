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
    /// Submits a request and waits for the response. If this caller becomes the leader, `answer` is called with all
    /// queued requests and returns the responses in their order.
    pub(crate) async fn submit(
        &self,
        question: Q,
        answer: impl AsyncFnOnce(&[Q]) -> Vec<Option<A>>,
    ) -> Option<A> {
        let (asker, mut answered) = oneshot::channel();
        self.queue.lock().push((question, asker));
        tokio::select! {
            biased;
            // A caller that has its response must not wait for the lock and run another batch.
            answer = &mut answered => return answer.ok(),
            _answering = self.leader_lock.lock() => {
                let mut waiting = std::mem::take(&mut *self.queue.lock());
                waiting.retain(|(_, asker)| !asker.is_closed());
                let (questions, askers): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
                let answers = answer(&questions).await;
                for (asker, answer) in askers.into_iter().zip(answers) {
                    // The receiver may have been cancelled meanwhile.
                    let _ = answer.map(|answer| asker.send(answer));
                }
            }
        }
        answered.await.ok()
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
    async fn with_count(questions: &[u32]) -> Vec<Option<(u32, usize)>> {
        let answer = |it: &u32| (*it <= 100).then_some((*it, questions.len()));
        questions.iter().map(answer).collect()
    }

    #[tokio::test]
    async fn requests_that_arrive_during_a_batch_form_the_next_batch() {
        let (batcher, go) = (Arc::new(RequestBatcher::default()), Arc::new(Notify::new()));
        let first = tokio::spawn({
            let (batcher, go) = (Arc::clone(&batcher), Arc::clone(&go));
            async move {
                let slow = async |questions: &[u32]| {
                    go.notified().await;
                    with_count(questions).await
                };
                batcher.submit(0, slow).await
            }
        });
        yield_now().await;
        let others = [1, 2, 300, 4].map(|question| {
            let batcher = Arc::clone(&batcher);
            tokio::spawn(async move { batcher.submit(question, with_count).await })
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
        let ask = |question: u32, wait: &Arc<Notify>| {
            let (batcher, wait) = (Arc::clone(&batcher), Arc::clone(wait));
            tokio::spawn(async move {
                let slow = async |questions: &[u32]| {
                    wait.notified().await;
                    with_count(questions).await
                };
                batcher.submit(question, slow).await
            })
        };
        let first = ask(1, &go);
        yield_now().await;
        let [second, third] = [2, 3].map(|question| ask(question, &go));
        yield_now().await;
        go.notify_one();
        assert_eq!(first.await.unwrap(), Some((1, 1)));
        // These requests arrive while the batch of the second and third request runs.
        let late = [4, 5].map(|question| ask(question, &stuck));
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
        let given_up = tokio::spawn({
            let batcher = Arc::clone(&batcher);
            async move {
                batcher
                    .submit(1, async |_: &[u32]| std::future::pending().await)
                    .await
            }
        });
        let left = tokio::spawn({
            let batcher = Arc::clone(&batcher);
            async move { batcher.submit(2, with_count).await }
        });
        yield_now().await;
        given_up.abort();
        assert_eq!(left.await.unwrap(), Some((2, 1)));
        assert_eq!(batcher.submit(3, async |_: &[u32]| Vec::new()).await, None);
        assert_eq!(batcher.submit(4, with_count).await, Some((4, 1)));
    }
}
