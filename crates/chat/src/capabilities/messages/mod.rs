//! Messages: sending, editing, deleting and reading the messages of a conversation.
//!
//! Invariants:
//! 1. An acknowledged message is a committed database row. The `seq` numbers of a conversation have no gaps.
//! 2. Committed messages are applied to the store in `seq` order, by any node: recent list, frame on the conversation
//!    channel, event for other services. Each message is applied once; `append.rs` describes the exception after data
//!    loss.
//! 3. The recent list is served only if it has no gap and contains every acknowledged change. Otherwise the database
//!    answers.
//! 4. Every call can be cancelled at any await point. Work that follows a commit runs on its own task and is not
//!    cancelled.
//! 5. If a node dies after a commit and before the apply step, or if the store is unavailable, the messages are replayed
//!    from the watermark of the node (`replay.rs`). Edits and deletes have an outbox entry.

pub mod keys;
pub mod writer;

mod append;
mod apply;
mod apply_queue;
mod apply_reply;
mod edit;
mod encode;
mod fill_gap;
mod history;
mod in_flight;
mod mark_applied;
mod message_row;
mod missed;
mod model;
mod operation_group;
mod operations;
mod outbox_entries;
mod post_commit;
mod recent_list;
mod replay;
mod rows;
mod scripts;
mod send;
mod validate;
mod visibility;
mod watermark_rows;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use self::in_flight::InFlightMessages;
use self::outbox_entries::{ChangedMessage, UnappliedConversation};
use self::post_commit::PostCommitApplier;
use self::recent_list::NewestMessages;
use self::replay::ReplayState;
use self::visibility::VisibilityCache;
use self::writer::MessageWriter;
use crate::api::error::Result;
use crate::background::{BackgroundTask, BackgroundTasks, log_failure};
use crate::context::ChatContext;
use crate::conversations::Conversations;
use crate::database::Database;
use crate::ids::ConversationId;
use crate::limits::RateLimiter;
use crate::nodes::LocalNode;
use crate::options::MessageOptions;
use crate::outbox::OutboxWorker;
use crate::single_flight::SingleFlight;
use crate::typing::Typing;
use crate::unread::Unread;

pub use self::encode::{MessageFrameHeader, decode_message_frame};
pub(crate) use self::mark_applied::mark_recent_as_applied;
pub(crate) use self::message_row::MessageRow;
pub(crate) use self::model::MAX_SEQ;
pub use self::model::{
    HistoryAnchor, Message, MessageEdit, MessageList, MissedMessages, NewMessage, SentMessage,
};
pub use self::operation_group::OPERATIONS;
pub use self::operations::{
    CatchUpConversation, DeleteMessage, EditMessage, GetMessage, JoinReply, ListMessages,
    SendMessage,
};
pub(crate) use self::validate::{ValidatedContent, validate_client_id};

/// Interval of the replays.
const BACKGROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of sends and edits in progress on this node. Further callers wait for a permit.
const MAX_IN_FLIGHT: u32 = 4_096;
/// Maximum number of shared loads of newest messages; further callers load the messages themselves.
const MAX_SHARED_LOADS: usize = 10_000;

/// Capabilities that [`Messages`] depends on.
pub struct MessageDependencies {
    /// Checks membership and lists members.
    pub conversations: Arc<Conversations>,
    /// Counts unread messages.
    pub unread: Arc<Unread>,
    /// Enforces the rate limit of messages.
    pub limits: RateLimiter,
    /// Ends the typing indicator of a sender.
    pub typing: Arc<Typing>,
    /// Tells which nodes are dead.
    pub nodes: Arc<LocalNode>,
}

/// Message service of one node.
pub struct Messages {
    ctx: ChatContext,
    database: Database,
    conversations: Arc<Conversations>,
    unread: Arc<Unread>,
    limits: RateLimiter,
    typing: Arc<Typing>,
    nodes: Arc<LocalNode>,
    options: MessageOptions,
    writer: MessageWriter,
    newest_loads: SingleFlight<ConversationId, Arc<NewestMessages>>,
    visibility: VisibilityCache,
    in_flight: InFlightMessages,
    /// A message was sent since the watermark was written.
    sent_since_write: AtomicBool,
    replay_state: Mutex<ReplayState>,
    in_flight_permits: Arc<Semaphore>,
    recent_list_misses: AtomicU64,
}

impl Messages {
    /// Creates the service and starts its writer.
    pub fn new(
        ctx: ChatContext,
        database: Database,
        dependencies: MessageDependencies,
        options: MessageOptions,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            writer: MessageWriter::start_with_observer(
                database.clone(),
                PostCommitApplier::new(me),
            ),
            visibility: VisibilityCache::new(ctx.clone(), database.clone()),
            conversations: dependencies.conversations,
            unread: dependencies.unread,
            limits: dependencies.limits,
            typing: dependencies.typing,
            nodes: dependencies.nodes,
            newest_loads: SingleFlight::new(MAX_SHARED_LOADS),
            in_flight: InFlightMessages::new(ctx.now()),
            sent_since_write: AtomicBool::new(false),
            replay_state: Mutex::default(),
            in_flight_permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT as usize)),
            recent_list_misses: AtomicU64::new(0),
            options,
            ctx,
            database,
        })
    }

    /// Returns the number of database reads that were necessary because the recent list could not answer. Tests and the
    /// benchmark use it to see whether a page came from the list.
    pub fn row_reads(&self) -> u64 {
        self.recent_list_misses.load(Ordering::Relaxed)
    }

    /// Starts the replays.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "replay messages that were not applied",
                |it| async move { it.catch_up().await },
            ),
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "recover messages",
                |it| async move { it.recover_if_needed().await.map(drop) },
            ),
        ])
    }

    /// Waits for all in-flight sends and edits, stops the writer and replays messages that were not applied. No message
    /// may be sent afterwards.
    pub async fn stop(&self) {
        drop(self.in_flight_permits.acquire_many(MAX_IN_FLIGHT).await);
        self.writer.stop().await;
        log_failure("write the last watermark", &self.finish().await);
    }

    /// Runs work on its own task and waits for the result. Once the task has an in-flight permit, it is not cancelled
    /// with the caller.
    async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.in_flight_permits).acquire_owned().await;
        let task = tokio::spawn(async move {
            let result = work.await;
            drop(permit);
            result
        });
        match task.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The task is only cancelled when the runtime shuts down.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// Registers the kinds of outbox entries of this capability.
pub(crate) fn register_outbox_kinds(messages: &Arc<Messages>, outbox: &mut OutboxWorker) {
    outbox.register::<ChangedMessage>(messages);
    outbox.register::<UnappliedConversation>(messages);
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Messages")
    }
}
