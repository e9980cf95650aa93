//! Messages: written once, applied in order, read by everybody alike.
//!
//! Always true:
//! 1. A message that was acknowledged is a row on disk. Its `seq` has no gap in its conversation.
//! 2. What follows the commit is applied in the order of `seq`, each message once, whichever node does it
//!    ([`append`](self) says how): the recent list, the frame on the conversation's channel, the event for other services.
//! 3. The recent list has no hole and shows every change that was acknowledged, or it is not served. The rows answer then.
//! 4. Any call may be given up at any moment: what follows a commit has a task of its own.
//! 5. A node that ends between a commit and what follows leaves a gap, which the next message of the conversation repairs,
//!    or, after the last one, a node that catches up.

pub mod keys;
pub mod writer;

mod append;
mod apply;
mod catch_up;
mod change;
mod content;
mod encode;
mod history;
mod message;
mod missed;
mod operations;
mod owed;
mod readings;
mod recent;
mod resume;
mod row;
mod rows;
mod send;
mod sights;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use self::apply::PostCommitApplier;
use self::catch_up::RecoveryState;
use self::owed::PendingStoreUpdate;
use self::readings::Readings;
use self::recent::NewestMessages;
use self::sights::VisibilityCache;
use self::writer::MessageWriter;
use crate::context::ChatContext;
use crate::conversations::Conversations;
use crate::database::Database;
use crate::error::Result;
use crate::limits::RateLimiter;
use crate::nodes::LocalNode;
use crate::options::MessageOptions;
use crate::owed::RetryQueue;
use crate::ticking::{BackgroundTask, BackgroundTasks};
use crate::typing::Typing;
use crate::unread::Unread;

pub use self::change::MessageEdit;
pub use self::content::MAX_MENTIONS;
pub use self::encode::decode_message_frame;
pub use self::history::{HistoryAnchor, MAX_HISTORY_PAGE_SIZE, MessageList};
pub use self::message::Message;
pub use self::missed::{MAX_MISSED, MissedMessages};
pub use self::operations::{
    DeleteMessage, EditMessage, GetMessage, ListMessages, SendMessage, SentMessage,
};
pub use self::resume::{CatchUpConversation, JoinReply};
pub(crate) use self::row::MessageRow;
pub(crate) use self::rows::ConversationHead;
pub use self::send::{NewMessage, Sent};

/// How often is looked for what is owed, and for a reason to catch up.
const BACKGROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Messages and changes on their way at one time.
const MAX_IN_FLIGHT: u32 = 4_096;

/// What messages need of the other capabilities.
pub struct MessageDependencies {
    /// Who is a member.
    pub conversations: Arc<Conversations>,
    /// What waits to be read.
    pub unread: Arc<Unread>,
    /// How many messages somebody may send.
    pub limits: RateLimiter,
    /// Who types.
    pub typing: Arc<Typing>,
    /// Which nodes have ended.
    pub nodes: Arc<LocalNode>,
}

/// The messages as one node serves them.
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
    newest_loads: Readings<NewestMessages>,
    visibility: VisibilityCache,
    retry_queue: RetryQueue<PendingStoreUpdate>,
    recovery_state: Mutex<RecoveryState>,
    in_flight_permits: Arc<Semaphore>,
    recent_list_misses: AtomicU64,
}

impl Messages {
    /// The messages of a node.
    pub fn new(
        ctx: ChatContext,
        database: Database,
        needs: MessageDependencies,
        options: MessageOptions,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            writer: MessageWriter::start_with_observer(
                database.clone(),
                PostCommitApplier::new(me),
            ),
            visibility: VisibilityCache::new(ctx.clone(), database.clone()),
            conversations: needs.conversations,
            unread: needs.unread,
            limits: needs.limits,
            typing: needs.typing,
            nodes: needs.nodes,
            newest_loads: Readings::new(),
            retry_queue: RetryQueue::default(),
            recovery_state: Mutex::default(),
            in_flight_permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT as usize)),
            recent_list_misses: AtomicU64::new(0),
            options,
            ctx,
            database,
        })
    }

    /// How often rows were read for what the recent list could not answer.
    pub fn row_reads(&self) -> u64 {
        self.recent_list_misses.load(Ordering::Relaxed)
    }

    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "retry store updates of messages",
                |it| async move { it.settle().await },
            ),
            BackgroundTask::spawn_periodic(
                self,
                BACKGROUND_INTERVAL,
                "recover messages",
                |it| async move { it.recover_if_needed().await.map(drop) },
            ),
        ])
    }

    /// Waits for what is under way. Nothing may be sent after it.
    pub async fn stop(&self) {
        drop(self.in_flight_permits.acquire_many(MAX_IN_FLIGHT).await);
        self.writer.stop().await;
    }

    /// Runs work on a task of its own as soon as there is a place: it is done whether somebody waits for it or not.
    async fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let place = Arc::clone(&self.in_flight_permits).acquire_owned().await;
        tokio::spawn(async move {
            let done = work.await;
            drop(place);
            done
        })
    }

    /// Runs work on a task of its own and waits for it.
    async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.spawn(work).await.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Messages")
    }
}
