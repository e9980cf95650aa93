//! What many ask at the same time is answered together: the way to a database takes longer than what is done there.
//!
//! Always true:
//! 1. A question is answered by what began after it was asked.
//! 2. Nobody waits for more than the round that is under way and their own.
//! 3. Whoever answers for others may fail or give up. Then those have no answer, and ask alone.

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The questions that wait; those of askers who gave up go with the next round.
pub(super) struct Together<Q, A> {
    queue: Mutex<Vec<(Q, oneshot::Sender<A>)>>,
    /// Held by whoever answers all.
    leader_lock: tokio::sync::Mutex<()>,
}

impl<Q, A> Default for Together<Q, A> {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            leader_lock: tokio::sync::Mutex::default(),
        }
    }
}

impl<Q, A> Together<Q, A> {
    /// The answer to a question. `answer` may be asked for those of others, too, and gives them in the order of the questions.
    pub(super) async fn ask(
        &self,
        question: Q,
        answer: impl AsyncFnOnce(&[Q]) -> Vec<Option<A>>,
    ) -> Option<A> {
        let (asker, mut answered) = oneshot::channel();
        self.queue.lock().push((question, asker));
        tokio::select! {
            biased;
            // Whoever has their answer goes, and answers nobody else.
            answer = &mut answered => return answer.ok(),
            _answering = self.leader_lock.lock() => {
                let mut waiting = std::mem::take(&mut *self.queue.lock());
                waiting.retain(|(_, asker)| !asker.is_closed());
                let (questions, askers): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
                let answers = answer(&questions).await;
                for (asker, answer) in askers.into_iter().zip(answers) {
                    // Who gave up meanwhile needs none.
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

    /// Everybody's question with how many were answered together; those above 100 have no answer.
    async fn with_count(questions: &[u32]) -> Vec<Option<(u32, usize)>> {
        let answer = |it: &u32| (*it <= 100).then_some((*it, questions.len()));
        questions.iter().map(answer).collect()
    }

    #[tokio::test]
    async fn requests_that_arrive_during_a_batch_form_the_next_batch() {
        let (together, go) = (Arc::new(Together::default()), Arc::new(Notify::new()));
        let first = tokio::spawn({
            let (together, go) = (Arc::clone(&together), Arc::clone(&go));
            async move {
                let slow = async |questions: &[u32]| {
                    go.notified().await;
                    with_count(questions).await
                };
                together.ask(0, slow).await
            }
        });
        yield_now().await;
        let others = [1, 2, 300, 4].map(|question| {
            let together = Arc::clone(&together);
            tokio::spawn(async move { together.ask(question, with_count).await })
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
        let together = Arc::new(Together::default());
        let (go, stuck) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let ask = |question: u32, wait: &Arc<Notify>| {
            let (together, wait) = (Arc::clone(&together), Arc::clone(wait));
            tokio::spawn(async move {
                let slow = async |questions: &[u32]| {
                    wait.notified().await;
                    with_count(questions).await
                };
                together.ask(question, slow).await
            })
        };
        let first = ask(1, &go);
        yield_now().await;
        let [second, third] = [2, 3].map(|question| ask(question, &go));
        yield_now().await;
        go.notify_one();
        assert_eq!(first.await.unwrap(), Some((1, 1)));
        // These come while the second is answered, and the third with it.
        let late = [4, 5].map(|question| ask(question, &stuck));
        yield_now().await;
        go.notify_one();
        assert_eq!(second.await.unwrap(), Some((2, 2)));
        // Whoever waited for the late ones would wait for ever.
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
        let together = Arc::new(Together::default());
        let given_up = tokio::spawn({
            let together = Arc::clone(&together);
            async move {
                together
                    .ask(1, async |_: &[u32]| std::future::pending().await)
                    .await
            }
        });
        let left = tokio::spawn({
            let together = Arc::clone(&together);
            async move { together.ask(2, with_count).await }
        });
        yield_now().await;
        given_up.abort();
        assert_eq!(left.await.unwrap(), Some((2, 1)));
        assert_eq!(together.ask(3, async |_: &[u32]| Vec::new()).await, None);
        assert_eq!(together.ask(4, with_count).await, Some((4, 1)));
    }
}
