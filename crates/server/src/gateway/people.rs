//! The users with a socket here: what is told to a user goes to all their sockets of this node.
//!
//! Always true:
//! 1. The node follows a user while they have a socket here or one is coming, once for all of their sockets.
//! 2. Locks are taken in this order: the shard, the person, the state of a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::error::Result;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::live::{Follow, UserNews, UserSink};
use parlor_chat::unread::UnreadChange;
use smallvec::SmallVec;

use super::errands::Errand;
use super::shards::Shards;
use super::words::Conversation;
use super::{Gateway, Socket, encode};

/// How long the conversation's own channel has to end a stream in order, before it is ended all the same.
const ORDERLY: Duration = Duration::from_secs(1);

/// All users with a socket here.
#[derive(Default)]
pub(super) struct People(Shards<UserId, Arc<Person>>);

/// A user with a socket here.
pub(super) struct Person {
    user: UserId,
    gateway: Arc<Gateway>,
    inside: Mutex<Inside>,
    follow: Mutex<Following>,
    /// What waits for the user is about to be told anew.
    recounting: AtomicBool,
}

/// How far the following is.
enum Following {
    /// Not there. Whoever begins it holds the lock.
    Not(Option<Arc<tokio::sync::Mutex<()>>>),
    Is {
        _follow: Follow,
    },
}

#[derive(Default)]
struct Inside {
    sockets: SmallVec<[Arc<Socket>; 1]>,
    /// Sockets that are on their way.
    coming: u32,
}

impl Inside {
    fn is_empty(&self) -> bool {
        self.sockets.is_empty() && self.coming == 0
    }
}

/// A place for a socket that is on its way; given up when dropped.
pub(super) struct Place(Option<Arc<Person>>);

impl Place {
    /// Takes a place among the sockets of a user, and follows the user if it is the first.
    pub(super) async fn take(gateway: &Arc<Gateway>, user: &UserId) -> Result<Self> {
        let person = gateway.people.0.with(user, |shard| {
            let person = shard.entry(user.clone()).or_insert_with(|| {
                Arc::new(Person {
                    user: user.clone(),
                    gateway: Arc::clone(gateway),
                    inside: Mutex::default(),
                    follow: Mutex::new(Following::Not(None)),
                    recounting: AtomicBool::new(false),
                })
            });
            person.inside.lock().coming += 1;
            Arc::clone(person)
        });
        let place = Self(Some(person));
        place.person().open().await?;
        Ok(place)
    }

    pub(super) fn person(&self) -> &Arc<Person> {
        self.0.as_ref().expect("it is there until it is kept")
    }

    /// Keeps the place for the socket that will [take](Person::seat) it.
    pub(super) fn keep(mut self) -> Arc<Person> {
        self.0.take().expect("it is kept once")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(person) = self.0.take() {
            person.change(|inside| inside.coming -= 1);
        }
    }
}

impl Person {
    async fn open(self: &Arc<Self>) -> Result<()> {
        let opening = match &mut *self.follow.lock() {
            Following::Is { .. } => return Ok(()),
            Following::Not(opening) => Arc::clone(opening.get_or_insert_default()),
        };
        let _opening = opening.lock().await;
        if let Following::Is { .. } = &*self.follow.lock() {
            return Ok(());
        }
        let sink = Arc::clone(self) as Arc<dyn UserSink>;
        let follow = self.gateway.chat().live().user(&self.user, sink).await?;
        *self.follow.lock() = Following::Is { _follow: follow };
        Ok(())
    }

    /// A socket takes the place that was kept for it.
    pub(super) fn seat(&self, socket: &Arc<Socket>) {
        let mut inside = self.inside.lock();
        inside.coming -= 1;
        inside.sockets.push(Arc::clone(socket));
    }

    /// A socket is gone.
    pub(super) fn leave(&self, socket: &Arc<Socket>) {
        self.change(|inside| inside.sockets.retain(|it| !Arc::ptr_eq(it, socket)));
    }

    /// The sockets of the user.
    pub(super) fn sockets(&self) -> SmallVec<[Arc<Socket>; 1]> {
        self.inside.lock().sockets.clone()
    }

    /// Takes somebody out; the following ends with the last.
    fn change(&self, out: impl FnOnce(&mut Inside)) {
        let follow = self.gateway.people.0.with(&self.user, |shard| {
            let mut inside = self.inside.lock();
            out(&mut inside);
            if !inside.is_empty() {
                return None;
            }
            shard.remove(&self.user);
            Some(std::mem::replace(
                &mut *self.follow.lock(),
                Following::Not(None),
            ))
        });
        drop(follow);
    }

    fn tell(&self, name: &str, json: &[u8]) {
        let inside = self.inside.lock();
        if inside.sockets.is_empty() {
            return;
        }
        let frame = self.gateway.frame(name, json);
        for socket in &inside.sockets {
            socket.send(&frame);
        }
    }

    /// Whether a socket of the user has the live stream of a conversation.
    fn has_joined(&self, conversation: &ConversationId) -> bool {
        let inside = self.inside.lock();
        let mut states = inside.sockets.iter().map(|it| it.state());
        states.any(|it| it.inner.lock().joined.contains(conversation))
    }

    fn added(&self, conversation: &ConversationId) {
        for socket in &self.inside.lock().sockets {
            let mut state = socket.state().inner.lock();
            // The next time they leave is another one.
            if state.removed.as_ref() == Some(conversation) {
                state.removed = None;
            }
        }
        let added = Conversation {
            conversation_id: conversation.to_string(),
        };
        self.tell("conversation:added", &encode(&added));
    }

    fn removed(&self, conversation: &ConversationId) {
        let frame = self.gateway.removed(conversation);
        let mut joined = false;
        for socket in &self.inside.lock().sockets {
            let mut state = socket.state().inner.lock();
            // The conversation's own channel tells those who listen to it, after the messages that came before.
            if state.joined.contains(conversation) {
                joined = true;
            } else if state.removed.as_ref() == Some(conversation) {
                state.removed = None;
            } else {
                drop(state);
                socket.send(&frame);
            }
        }
        if joined {
            let (gateway, user) = (Arc::clone(&self.gateway), self.user.clone());
            let conversation = conversation.clone();
            self.gateway.runtime.spawn(async move {
                tokio::time::sleep(ORDERLY).await;
                let person = gateway.people.find(&user);
                if !person.is_some_and(|it| it.has_joined(&conversation)) {
                    return;
                }
                let members = gateway.chat().members();
                if let Ok(false) = members.is_member(&conversation, &user).await {
                    gateway.rooms.evict(&conversation, &user);
                }
            });
        }
    }
}

impl Gateway {
    /// Tells a user's sockets what waits, after news of it may have been missed. What was read meanwhile on another device
    /// is told with the next change.
    pub(super) async fn recount(&self, user: &UserId) -> Result<()> {
        let Some(person) = self.people.find(user) else {
            return Ok(());
        };
        // What is missed from now on is asked for once more.
        person.recounting.store(false, Ordering::Release);
        let counts = self.chat().unread().counts(user).await?;
        for counted in counts.conversations {
            let change = UnreadChange {
                conversation_id: counted.conversation_id,
                count: counted.count,
                total: counts.total,
            };
            person.tell("unread", &encode(&change));
        }
        Ok(())
    }
}

impl UserSink for Person {
    fn told(&self, news: &UserNews<'_>) {
        match news {
            UserNews::Unread(json) => self.tell("unread", json),
            UserNews::Membership {
                conversation,
                joined: true,
            } => self.added(conversation),
            UserNews::Membership { conversation, .. } => self.removed(conversation),
            UserNews::MaybeMissed => {
                if !self.recounting.swap(true, Ordering::AcqRel) {
                    let recount = Errand::Recount(self.user.clone());
                    self.gateway.errands.add(recount);
                }
            }
        }
    }
}

impl People {
    /// The user, if they have a socket here.
    pub(super) fn find(&self, user: &UserId) -> Option<Arc<Person>> {
        self.0.with(user, |shard| shard.get(user).cloned())
    }
}
