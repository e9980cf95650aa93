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

use self::apply::Applier;
use self::catch_up::CaughtUp;
use self::owed::Step;
use self::readings::Readings;
use self::recent::Newest;
use self::sights::Sights;
use self::writer::Writer;
use crate::context::Context;
use crate::conversations::Conversations;
use crate::database::Database;
use crate::error::Result;
use crate::limits::Limits;
use crate::nodes::Nodes;
use crate::options::MessageOptions;
use crate::owed::Owed;
use crate::ticking::{Task, Ticking};
use crate::typing::Typing;
use crate::unread::Unread;

pub use self::change::Edit;
pub use self::content::MOST_MENTIONS;
pub use self::encode::read_frame;
pub use self::history::{MOST_MESSAGES, MessageList, Page};
pub use self::message::Message;
pub use self::missed::{MOST_MISSED, Missed};
pub use self::operations::{
    DeleteMessage, EditMessage, GetMessage, ListMessages, SendMessage, SentMessage,
};
pub use self::resume::{CatchUp, Resumed};
pub(crate) use self::row::MessageRow;
pub(crate) use self::rows::Head;
pub use self::send::{NewMessage, Sent};

/// How often is looked for what is owed, and for a reason to catch up.
const TICK: Duration = Duration::from_secs(1);
/// Messages and changes on their way at one time.
const MOST_UNDER_WAY: u32 = 4_096;

/// What messages need of the other capabilities.
pub struct Needs {
    /// Who is a member.
    pub conversations: Arc<Conversations>,
    /// What waits to be read.
    pub unread: Arc<Unread>,
    /// How many messages somebody may send.
    pub limits: Limits,
    /// Who types.
    pub typing: Arc<Typing>,
    /// Which nodes have ended.
    pub nodes: Arc<Nodes>,
}

/// The messages as one node serves them.
pub struct Messages {
    ctx: Context,
    database: Database,
    conversations: Arc<Conversations>,
    unread: Arc<Unread>,
    limits: Limits,
    typing: Arc<Typing>,
    nodes: Arc<Nodes>,
    options: MessageOptions,
    writer: Writer,
    readings: Readings<Newest>,
    sights: Sights,
    owed: Owed<Step>,
    caught_up: Mutex<CaughtUp>,
    places: Arc<Semaphore>,
    row_reads: AtomicU64,
}

impl Messages {
    /// The messages of a node.
    pub fn new(
        ctx: Context,
        database: Database,
        needs: Needs,
        options: MessageOptions,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            writer: Writer::start_with(database.clone(), Applier::new(me)),
            sights: Sights::new(ctx.clone(), database.clone()),
            conversations: needs.conversations,
            unread: needs.unread,
            limits: needs.limits,
            typing: needs.typing,
            nodes: needs.nodes,
            readings: Readings::new(),
            owed: Owed::default(),
            caught_up: Mutex::default(),
            places: Arc::new(Semaphore::new(MOST_UNDER_WAY as usize)),
            row_reads: AtomicU64::new(0),
            options,
            ctx,
            database,
        })
    }

    /// How often rows were read for what the recent list could not answer.
    pub fn row_reads(&self) -> u64 {
        self.row_reads.load(Ordering::Relaxed)
    }

    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        Ticking::new(vec![
            Task::each(
                self,
                TICK,
                "give the store what it missed",
                |it| async move { it.settle().await },
            ),
            Task::each(self, TICK, "catch up with messages", |it| async move {
                it.follow().await.map(drop)
            }),
        ])
    }

    /// Waits for what is under way. Nothing may be sent after it.
    pub async fn stop(&self) {
        drop(self.places.acquire_many(MOST_UNDER_WAY).await);
        self.writer.stop().await;
    }

    /// Runs work on a task of its own as soon as there is a place: it is done whether somebody waits for it or not.
    async fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        tokio::spawn(async move {
            let done = work.await;
            drop(place);
            done
        })
    }

    /// Runs work on a task of its own and waits for it.
    async fn aside<T: Send + 'static>(
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
