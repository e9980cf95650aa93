//! Message writer: commits the messages of many senders in one transaction (group commit).
//!
//! Invariants:
//! 1. A message is acknowledged only after its commit.
//! 2. `seq` is assigned in the transaction that writes the message, under a lock on the conversation. It has no gaps,
//!    and every message below a committed one is committed.
//! 3. No timer fills a batch. The next batch contains what was queued while the previous commit ran, or while the CPU
//!    was busy.
//! 4. A message that the database refuses does not fail other messages: a refused batch is split in halves until that
//!    message is alone.
//! 5. A sender waits for a bounded time, also if the disk hangs.
//! 6. A caller can be cancelled at any await point. Its message is written completely or not at all.

mod commit_error;
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

pub use self::job::SenderSnapshot;
use self::job::WriteJob;
pub(super) use self::job::{CommittedMessage, PendingReply, SendState};
use super::Message;
use crate::api::caller::Role;
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::database::{Database, MESSAGE_WRITER_CONNECTIONS, PerBackend, commit_timeout};
use crate::ids::{ConversationId, UserId};

/// Maximum messages per commit.
const MAX_BATCH_SIZE: usize = 1_024;
/// Maximum messages that wait for a commit in each queue.
const QUEUE_CAPACITY: usize = 1_024;

/// A validated message that has no `seq` yet.
#[derive(Debug, Clone)]
pub struct MessageDraft {
    /// Id of the message, a UUIDv7.
    pub id: Uuid,
    /// Conversation that the message is sent to.
    pub conversation: ConversationId,
    /// Id of the sender.
    pub sender: UserId,
    /// Role of the sender.
    pub sender_role: Role,
    /// Text of the message.
    pub content: String,
    /// Metadata as JSON text.
    pub metadata: Option<String>,
    /// Id that the client chose. A sender has at most one message with it in a conversation.
    pub client_id: Option<String>,
    /// Mentioned users, each once. Mentions of the sender and of users who are not members are not stored.
    pub mentions: Vec<UserId>,
    /// Time of sending.
    pub at: Timestamp,
}

/// A committed message.
#[derive(Debug, Clone)]
pub struct WrittenMessage {
    /// The message.
    pub message: Message,
    /// True if the message existed already under the same `client_id`; nothing was changed.
    pub is_duplicate: bool,
    /// Versions of the conversation and of the sender.
    pub sender: SenderSnapshot,
}

/// Receives the results of commits.
pub(super) trait CommitObserver: Send + Sync {
    /// These messages are committed. Messages of one conversation are in commit order.
    fn on_committed(&self, batch: Vec<CommittedMessage>);
}

/// Observer that only replies to the senders.
struct ReplyOnlyObserver;

impl CommitObserver for ReplyOnlyObserver {
    fn on_committed(&self, batch: Vec<CommittedMessage>) {
        for message in batch {
            let (reply, written) = message.into_written();
            reply.send(Ok(written));
        }
    }
}

/// Writes the messages of all senders of this node.
pub struct MessageWriter {
    /// Empty after `stop`.
    queues: RwLock<Vec<mpsc::Sender<WriteJob>>>,
    /// Closes when all queued messages are written after `stop`.
    drained: watch::Receiver<()>,
    /// How long a message may wait for room in its queue.
    timeout: Duration,
}

impl MessageWriter {
    /// Starts a writer for this database. Messages that are queued when the writer is dropped are still written.
    pub fn start(database: Database) -> Self {
        Self::start_with_observer(database, Arc::new(ReplyOnlyObserver))
    }

    /// As [`start`](Self::start), with an observer that is called after each commit.
    pub(super) fn start_with_observer(
        database: Database,
        observer: Arc<dyn CommitObserver>,
    ) -> Self {
        let timeout = database.options().timeout;
        let (drained_signal, drained) = watch::channel(());
        let queues = match database.pools() {
            PerBackend::Sqlite(_) => vec![sqlite::start(database, observer, drained_signal)],
            PerBackend::Postgres(pool) => (0..MESSAGE_WRITER_CONNECTIONS)
                .map(|_| {
                    let (observer, signal) = (Arc::clone(&observer), drained_signal.clone());
                    postgres::start(database.clone(), pool.clone(), observer, signal)
                })
                .collect(),
        };
        Self {
            queues: RwLock::new(queues),
            drained,
            timeout,
        }
    }

    /// Writes a message, or finds the earlier message with the same `client_id`, and waits for the commit.
    pub async fn send(&self, draft: MessageDraft) -> Result<WrittenMessage> {
        let queued = self.queue(draft, SendState::default()).await?;
        queued.wait().await
    }

    /// First half of [`send`](Self::send).
    pub(super) async fn queue(
        &self,
        draft: MessageDraft,
        mut state: SendState,
    ) -> Result<QueuedMessage> {
        let queue = self.queue_for(&draft.conversation);
        let slot = match &queue {
            Some(queue) => self.reserve_slot(queue).await,
            None => Err(Error::DatabaseUnavailable(sqlx::Error::PoolClosed)),
        };
        let slot = slot.inspect_err(|_| state.nothing_written())?;
        let (channel, reply) = oneshot::channel();
        slot.send(WriteJob::new(draft, PendingReply { channel, state }));
        Ok(QueuedMessage {
            reply,
            // A job waits in the queue for at most `timeout`. On PostgreSQL, its commit is tried twice, and the writer may
            // have to connect.
            timeout: 4 * self.timeout,
        })
    }

    async fn reserve_slot<'q>(
        &self,
        queue: &'q mpsc::Sender<WriteJob>,
    ) -> Result<mpsc::Permit<'q, WriteJob>> {
        match queue.try_reserve() {
            Ok(slot) => Ok(slot),
            Err(_) => timeout(self.timeout, queue.reserve())
                .await
                .map_err(|_| commit_error::queue_timeout())?
                .map_err(|_| commit_error::writer_crashed()),
        }
    }

    /// Rejects new messages and waits until all queued messages are written.
    pub async fn stop(&self) {
        self.queues.write().clear();
        let mut drained = self.drained.clone();
        // The channel carries no values: it closes when all writer tasks have ended.
        while drained.changed().await.is_ok() {}
    }

    /// All messages of a conversation go through one queue, so that no two commits of this node need the same lock.
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
pub(super) struct QueuedMessage {
    reply: oneshot::Receiver<Result<WrittenMessage>>,
    timeout: Duration,
}

impl QueuedMessage {
    /// Waits for the result of the commit. If the disk hangs, the wait ends without a result, and the message may still be
    /// written.
    pub async fn wait(self) -> Result<WrittenMessage> {
        match timeout(self.timeout, self.reply).await {
            // The channel closes without a value if the writer panicked.
            Ok(reply) => reply.map_err(|_| commit_error::writer_crashed())?,
            Err(_) => Err(Error::DatabaseUnavailable(commit_timeout())),
        }
    }
}

impl std::fmt::Debug for MessageWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Writer({} queues)", self.queues.read().len())
    }
}

impl MessageDraft {
    /// Users whose mention is stored.
    fn stored_mentions(&self) -> impl Iterator<Item = &UserId> {
        self.mentions.iter().filter(|user| **user != self.sender)
    }
}
