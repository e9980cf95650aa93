//! Writing messages: many senders, one commit.
//!
//! Always true:
//! 1. A message is acknowledged when its commit is, and then it is on disk.
//! 2. `seq` is taken in the transaction that writes the message, under the lock of its conversation: it has no gap, and
//!    everything below a committed one is committed.
//! 3. No clock fills a batch: what queued up while the last commit ran, or while the machine was busy, is the next one.
//! 4. A message that the database refuses does not take others with it: a refused batch is halved until that one is alone.
//! 5. Whoever calls may give up at any moment. Their message is written or not, whole either way.

mod failure;
mod job;
mod postgres;
mod sqlite;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use uuid::Uuid;

use self::job::WriteJob;
pub(super) use self::job::{CommittedMessage, PendingReply};
use super::Message;
use crate::access::Role;
use crate::context::Timestamp;
use crate::database::{Database, Either, MESSAGE_WRITER_CONNECTIONS};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// Messages in one commit.
const MAX_BATCH_SIZE: usize = 1_024;
/// Messages that wait for it, in each queue.
const QUEUE_CAPACITY: usize = 1_024;
/// Users whose mention in one message counts.
const MOST_MENTIONS: usize = 50;

/// A message that is to be written.
#[derive(Debug, Clone)]
pub struct MessageDraft {
    /// Its id, a UUIDv7.
    pub id: Uuid,
    /// Where it is sent.
    pub conversation: ConversationId,
    /// Who sends it.
    pub sender: UserId,
    /// What the sender may do.
    pub sender_role: Role,
    /// The text.
    pub content: String,
    /// What the sender adds, as JSON.
    pub metadata: Option<String>,
    /// What the sender calls it: there is one message of a sender in a conversation with this name.
    pub client_id: Option<String>,
    /// Who is mentioned. The sender, who is no member, and who comes after the fiftieth are left out.
    pub mentions: Vec<UserId>,
    /// When it is sent.
    pub at: Timestamp,
}

/// A message that is written, and what its conversation looked like then.
#[derive(Debug, Clone)]
pub struct WrittenMessage {
    /// The message.
    pub message: Message,
    /// It was there before, by its `client_id`; nothing was changed.
    pub repeated: bool,
    /// The version of the conversation's members.
    pub members_version: u64,
    /// How many members it has.
    pub member_count: u64,
    /// The version of the members when the sender joined; 0 for a repetition by somebody who has left.
    pub joined_version: u64,
    /// The version of the sender's position after this message; 0 for a repetition by somebody who has left.
    pub position_version: u64,
}

/// What follows a commit.
pub(super) trait CommitObserver: Send + Sync {
    /// These messages are on disk; those of one conversation in this order.
    fn on_committed(&self, batch: Vec<CommittedMessage>);

    /// Messages of this conversation may have been written or not.
    fn on_commit_unknown(&self, conversation: &ConversationId);
}

/// Nothing follows: whoever waits is answered.
struct ReplyOnlyObserver;

impl CommitObserver for ReplyOnlyObserver {
    fn on_committed(&self, batch: Vec<CommittedMessage>) {
        for one in batch {
            let (row, written, ticket) = one.into_parts();
            ticket.answer(Ok(written(row.into_message())));
        }
    }

    fn on_commit_unknown(&self, _: &ConversationId) {}
}

/// Writes messages, those of all senders of this node.
pub struct MessageWriter {
    /// None after the end.
    queues: RwLock<Vec<mpsc::Sender<WriteJob>>>,
    /// Closed when everything queued was answered after the end.
    drained: watch::Receiver<()>,
    /// How long a message may wait to be queued.
    timeout: Duration,
}

impl MessageWriter {
    /// Starts to write to this database. What is queued when the writer is dropped is still written.
    pub fn start(database: Database) -> Self {
        Self::start_with_observer(database, Arc::new(ReplyOnlyObserver))
    }

    /// [`start`](Self::start), and what follows a commit.
    pub(super) fn start_with_observer(database: Database, after: Arc<dyn CommitObserver>) -> Self {
        let timeout = database.options().timeout;
        let (end, drained) = watch::channel(());
        let queues = match database.pools() {
            Either::Sqlite(_) => vec![sqlite::drained_signal(database, after, end)],
            Either::Postgres(pool) => (0..MESSAGE_WRITER_CONNECTIONS)
                .map(|_| {
                    let after = Arc::clone(&after);
                    postgres::start(pool.clone(), timeout, after, end.clone())
                })
                .collect(),
        };
        Self {
            queues: RwLock::new(queues),
            drained,
            timeout,
        }
    }

    /// Writes a message, or finds the one that was written before by the same `client_id`. When this returns, it is on disk.
    pub async fn send(&self, draft: MessageDraft) -> Result<WrittenMessage> {
        self.queue(draft, PendingReply::new).await?.wait().await
    }

    /// The first half of [`send`](Self::send), with a ticket that says more than who waits.
    pub(super) async fn queue(
        &self,
        draft: MessageDraft,
        ticket: impl FnOnce(oneshot::Sender<Result<WrittenMessage>>) -> PendingReply,
    ) -> Result<QueuedMessage> {
        draft.check()?;
        let queue = self
            .queue_for(&draft.conversation)
            .ok_or_else(|| Error::DatabaseUnavailable(sqlx::Error::PoolClosed))?;
        let (answer, answered) = oneshot::channel();
        let job = WriteJob::new(draft, ticket(answer));
        let place = match queue.try_reserve() {
            Ok(place) => place,
            Err(_) => timeout(self.timeout, queue.reserve())
                .await
                .map_err(|_| failure::queue_timeout())?
                .map_err(|_| failure::writer_crashed())?,
        };
        place.send(job);
        Ok(QueuedMessage(answered))
    }

    /// Takes no more messages and writes those that were taken.
    pub async fn stop(&self) {
        self.queues.write().clear();
        let mut ended = self.drained.clone();
        // Nothing is ever sent: it ends by being closed.
        while ended.changed().await.is_ok() {}
    }

    /// All messages of a conversation go through one queue, so that no two commits of this node want the same lock.
    fn queue_for(&self, conversation: &ConversationId) -> Option<mpsc::Sender<WriteJob>> {
        let queues = self.queues.read();
        let mut hasher = DefaultHasher::new();
        conversation.hash(&mut hasher);
        let count = u64::try_from(queues.len()).ok()?;
        let at = hasher.finish().checked_rem(count)?;
        queues.get(usize::try_from(at).ok()?).cloned()
    }
}

/// A message that waits for its commit.
pub(super) struct QueuedMessage(oneshot::Receiver<Result<WrittenMessage>>);

impl QueuedMessage {
    /// What became of it.
    pub async fn wait(self) -> Result<WrittenMessage> {
        // Else the batch it was in came to no end.
        self.0.await.map_err(|_| failure::writer_crashed())?
    }
}

impl std::fmt::Debug for MessageWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({} queues)", self.queues.read().len())
    }
}

impl MessageDraft {
    /// PostgreSQL has no NUL in texts; what is valid does not depend on the database.
    fn check(&self) -> Result<()> {
        let texts = [
            ("content", Some(&self.content)),
            ("metadata", self.metadata.as_ref()),
            ("clientId", self.client_id.as_ref()),
        ];
        for (what, text) in texts {
            if text.is_some_and(|text| text.contains('\0')) {
                let error = format!("{what} contains a NUL character; remove it");
                return Err(Error::InvalidRequest(error));
            }
        }
        Ok(())
    }

    /// The users whose mention may count, each once.
    fn stored_mentions(&self) -> Vec<&UserId> {
        let mut users: Vec<&UserId> = Vec::new();
        for user in &self.mentions {
            if users.len() < MOST_MENTIONS && *user != self.sender && !users.contains(&user) {
                users.push(user);
            }
        }
        users
    }
}
