//! Live: what happens, told to the sockets of this node.
//!
//! Always true:
//! 1. A follower is told a conversation's messages in the order of `seq`, each once, and none is left out: what the bus lost
//!    is read from the rows before anything later is told.
//! 2. Of one message a change is never told after a newer one. Changes are told in the order of `rev`, those of messages that
//!    are yet to be told as well: somebody may have read them from the rows.
//! 3. An idle follower costs an entry in the bus and no task.
//! 4. A follower that is dropped is told nothing more, but for a call that has begun; what was under way for it ends.

mod ends;
mod large;
mod mend;
mod news;
mod revs;
mod room;
mod typers;
mod user;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use parlor_store::{Listening, Sink};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

use self::ends::Ends;
use self::large::Large;
use self::room::{Room, State};
use self::user::{Line, Lines};
use crate::context::Context;
use crate::conversations::Conversations;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;
use crate::messages::Messages;
use crate::ticking::{Task, Ticking, told};
use crate::typing::Typing;
use crate::unread::Unread;

pub use self::news::{ConversationNews, ConversationSink, UserNews, UserSink};

/// How often is looked whose typing has ended.
const TICK: Duration = Duration::from_millis(100);
/// How often is looked what may be told of large conversations.
const LARGE_TICK: Duration = Duration::from_millis(250);

/// What live news need of the other capabilities.
pub struct Needs {
    /// What was said, and what was missed of it.
    pub messages: Arc<Messages>,
    /// Who types.
    pub typing: Arc<Typing>,
    /// Who is a member.
    pub conversations: Arc<Conversations>,
    /// How far the members have read.
    pub unread: Arc<Unread>,
}

/// What happens, as one node hears of it.
pub struct Live {
    ctx: Context,
    messages: Arc<Messages>,
    typing: Arc<Typing>,
    conversations: Arc<Conversations>,
    unread: Arc<Unread>,
    rooms: AtomicU64,
    ends: Ends,
    places: Semaphore,
    lines: Lines,
    large: Large,
}

/// A follower. Dropping it ends the following; that takes no lock under which a sink is called. It keeps the sink: a sink
/// that keeps its follower has to give it up one day.
#[must_use = "following ends when this is dropped"]
pub struct Follow {
    _listening: Listening,
    of: Of,
}

enum Of {
    Conversation(Arc<Room>),
    User(Arc<Live>, Arc<Line>),
}

impl Live {
    /// What happens, as a node hears of it.
    pub fn new(ctx: Context, needs: Needs) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            messages: needs.messages,
            typing: needs.typing,
            conversations: needs.conversations,
            unread: needs.unread,
            rooms: AtomicU64::new(0),
            ends: Ends::default(),
            places: Semaphore::new(mend::MOST_MENDED),
            lines: Lines::default(),
            large: Large::default(),
        })
    }

    /// Tells a sink what happens in a conversation, from when this returns: whoever reads the conversation after that, by
    /// [`CatchUp`](crate::messages::CatchUp) or another way, finds everything that the sink is not told. To be called once
    /// for all who are shown the conversation on this node.
    pub async fn conversation(
        self: &Arc<Self>,
        id: &ConversationId,
        sink: Arc<dyn ConversationSink>,
    ) -> Result<Follow> {
        let number = self.rooms.fetch_add(1, Ordering::Relaxed);
        let room = Arc::new_cyclic(|me| Room {
            me: me.clone(),
            live: Arc::clone(self),
            conversation: id.clone(),
            number,
            sink,
            state: Mutex::new(State::holding()),
            ended: AtomicBool::new(false),
            ending: Notify::new(),
        });
        let channel = self.ctx.keys().conversation_bus(id);
        let heard = Arc::clone(&room) as Arc<dyn Sink>;
        let bus = self.ctx.store().bus();
        let follow = Follow {
            _listening: bus.listen_sharded(channel.as_str(), heard).await?,
            of: Of::Conversation(room),
        };
        if let Of::Conversation(room) = &follow.of {
            room.open().await?;
        }
        Ok(follow)
    }

    /// Tells a sink what concerns a user, from when this returns. To be called once for all sockets of the user on this
    /// node.
    pub async fn user(self: &Arc<Self>, id: &UserId, sink: Arc<dyn UserSink>) -> Result<Follow> {
        self.hear_large().await?;
        let line = Arc::new(Line {
            user: id.clone(),
            sink,
            ended: AtomicBool::new(false),
        });
        let channel = self.ctx.keys().user_bus(id);
        let heard = Arc::clone(&line) as Arc<dyn Sink>;
        let bus = self.ctx.store().bus();
        let listening = bus.listen_sharded(channel.as_str(), heard).await?;
        self.lines.add(&line);
        Ok(Follow {
            _listening: listening,
            of: Of::User(Arc::clone(self), line),
        })
    }

    /// Tells whose typing has ended, and what waited of large conversations. To be called some times a second.
    pub async fn expire(&self) -> Result<()> {
        self.end_typing();
        self.tell_large().await
    }

    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        let large = Arc::clone(self);
        Ticking::new(vec![
            Task::each(self, TICK, "tell who stopped typing", |it| async move {
                it.end_typing();
                Ok(())
            }),
            // Apart: ends are told on time also while the database does not answer.
            Task::spawn(async move {
                loop {
                    let next = Instant::now() + LARGE_TICK;
                    // Sooner if something was heard.
                    drop(timeout_at(next, large.large.heard.notified()).await);
                    told("tell of large conversations", &large.tell_large().await);
                }
            }),
        ])
    }

    fn end_typing(&self) {
        let now = self.ctx.now();
        for (room, user) in self.ends.take_due(now) {
            room.look(&user, now);
        }
    }

    fn longest_typing(&self) -> Duration {
        self.ctx.keys().ttl(TtlName::Typing)
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        match &self.of {
            Of::Conversation(room) => {
                room.ended.store(true, Ordering::Release);
                room.ending.notify_one();
            }
            Of::User(live, line) => {
                line.ended.store(true, Ordering::Release);
                live.lines.remove(line);
            }
        }
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Live")
    }
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.of {
            Of::Conversation(room) => write!(f, "Follow({})", room.conversation),
            Of::User(_, line) => write!(f, "Follow({})", line.user),
        }
    }
}
