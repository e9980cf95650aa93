//! The conversations that sockets of this node have joined.
//!
//! Always true:
//! 1. The node follows a conversation while a socket has joined it or is about to, once for all of them.
//! 2. What is told to a socket that joins is held until it knows what came before; then it gets what came after, in order,
//!    nothing twice.
//! 3. Who is no longer a member gets nothing that was sent after they left.
//! 4. Locks are taken in this order: the shard, the room, the state of a socket.

use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::Mutex;
use parlor_chat::error::Result;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::live::{ConversationSink, Follow};
use parlor_socketio::{Frame, Reason};

use super::shards::Shards;
use super::state::State;
use super::{Gateway, Socket};

/// News that are held for one socket while it joins.
const MOST_HELD: usize = 10_000;

/// All joined conversations.
#[derive(Default)]
pub(super) struct Rooms(Shards<ConversationId, Arc<Room>>);

/// A conversation that sockets have joined.
pub(super) struct Room {
    pub(super) id: ConversationId,
    pub(super) gateway: Arc<Gateway>,
    pub(super) inside: Mutex<Inside>,
    /// Held while the following begins.
    opening: tokio::sync::Mutex<()>,
    follow: Mutex<Option<Follow>>,
}

/// Who is in a room.
#[derive(Default)]
pub(super) struct Inside {
    /// By the address of the socket, which it has while it is here.
    pub(super) followers: IndexMap<usize, Follower>,
    /// Sockets that are about to join.
    entering: usize,
}

/// A socket that has joined, or is about to.
pub(super) struct Follower {
    pub(super) socket: Arc<Socket>,
    /// Where its live stream began; none before.
    after: Option<Cursor>,
    /// While it joins: what was told meanwhile.
    held: Option<Box<Held>>,
    /// The last of its joins. A client that came back may ask while what it asked before is still being read.
    turn: u32,
}

/// What was told meanwhile; a box of it is smaller than it is.
#[derive(Default)]
struct Held(Vec<(Point, Frame)>);

/// How far a socket knows a conversation without its live stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    pub(super) seq: u64,
    pub(super) rev: u64,
}

/// Where something stands in a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Point {
    Message(u64),
    Change(u64),
    /// A change of a message that is yet to be told: news to those who know it from elsewhere as it was.
    Ahead {
        seq: u64,
        rev: u64,
    },
    /// Nowhere: it is news to everybody.
    Moment,
}

impl Cursor {
    const fn precedes(self, point: Point) -> bool {
        match point {
            Point::Message(seq) => seq > self.seq,
            Point::Change(rev) => rev > self.rev,
            Point::Ahead { seq, rev } => seq <= self.seq && rev > self.rev,
            Point::Moment => true,
        }
    }
}

fn key(socket: &Arc<Socket>) -> usize {
    Arc::as_ptr(socket) as usize
}

impl Inside {
    fn is_empty(&self) -> bool {
        self.followers.is_empty() && self.entering == 0
    }

    /// Tells everybody, but for the sockets of one user.
    pub(super) fn tell(&mut self, point: Point, frame: &Frame, but: Option<&UserId>) {
        for follower in self.followers.values_mut() {
            if but.is_some_and(|but| follower.socket.state().device.user == *but) {
                continue;
            }
            let is_known = follower.knows(point);
            match &mut follower.held {
                None if is_known => {}
                None => follower.socket.send(frame),
                Some(held) if held.0.len() < MOST_HELD => held.0.push((point, frame.clone())),
                // Without a goodbye, so that it comes again.
                Some(_) => follower.socket.disconnect(Reason::Shutdown),
            }
        }
    }
}

/// A socket that is about to join a conversation. Dropped, it is as before.
pub(super) struct Entering {
    room: Arc<Room>,
    socket: Arc<Socket>,
    turn: u32,
    done: bool,
}

impl Rooms {
    /// A socket is about to join: from now on what is told is held for it.
    pub(super) fn enter(
        gateway: &Arc<Gateway>,
        id: &ConversationId,
        socket: &Arc<Socket>,
    ) -> Entering {
        gateway.rooms.0.with(id, |shard| {
            let room = shard.entry(id.clone()).or_insert_with(|| {
                Arc::new(Room {
                    id: id.clone(),
                    gateway: Arc::clone(gateway),
                    inside: Mutex::default(),
                    opening: tokio::sync::Mutex::default(),
                    follow: Mutex::default(),
                })
            });
            let mut inside = room.inside.lock();
            inside.entering += 1;
            let entry = inside.followers.entry(key(socket));
            let follower = entry.or_insert_with(|| Follower {
                socket: Arc::clone(socket),
                after: None,
                held: None,
                turn: 0,
            });
            follower.held.get_or_insert_default();
            follower.turn = follower.turn.wrapping_add(1);
            let turn = follower.turn;
            socket.state().inner.lock().joined.insert(id.clone());
            drop(inside);
            Entering {
                room: Arc::clone(room),
                socket: Arc::clone(socket),
                turn,
                done: false,
            }
        })
    }

    /// A socket's stream ends.
    pub(super) fn leave(&self, id: &ConversationId, socket: &Arc<Socket>) {
        self.change(id, |_, inside| {
            inside.followers.swap_remove(&key(socket));
        });
    }

    /// The streams of a user end, who is no member any more.
    pub(super) fn evict(&self, id: &ConversationId, user: &UserId) {
        self.change(id, |room, inside| {
            room.evict(inside, |it| !it.service && it.device.user == *user);
        });
    }

    /// Takes somebody out; the following ends with the last.
    fn change(&self, id: &ConversationId, out: impl FnOnce(&Room, &mut Inside)) {
        let follow = self.0.with(id, |shard| {
            let room = shard.get(id)?;
            let mut inside = room.inside.lock();
            out(room, &mut inside);
            if !inside.is_empty() {
                return None;
            }
            drop(inside);
            let room = shard.remove(id)?;
            room.follow.lock().take()
        });
        drop(follow);
    }
}

impl Entering {
    /// Follows the conversation, if nobody did. To be done before what came before is read.
    pub(super) async fn open(&self) -> Result<()> {
        let room = &self.room;
        let _opening = room.opening.lock().await;
        if room.follow.lock().is_some() {
            return Ok(());
        }
        let sink = Arc::clone(room) as Arc<dyn ConversationSink>;
        let live = room.gateway.chat().live();
        let follow = live.conversation(&room.id, sink).await?;
        *room.follow.lock() = Some(follow);
        Ok(())
    }

    /// The socket knows what came before: it is told so by `first`, and then what came after. False if it was put out
    /// meanwhile. Nothing is done if it asked again: what is held is for that answer.
    pub(super) fn joined(mut self, after: Cursor, first: impl FnOnce()) -> bool {
        self.done = true;
        let mut there = false;
        self.room.gateway.rooms.change(&self.room.id, |_, inside| {
            inside.entering -= 1;
            if let Some(follower) = inside.followers.get_mut(&key(&self.socket)) {
                there = true;
                if follower.turn == self.turn {
                    first();
                    follower.after = Some(after);
                    follower.release();
                }
            }
        });
        there
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.room.gateway.rooms.change(&self.room.id, |_, inside| {
            inside.entering -= 1;
            let key = key(&self.socket);
            match inside.followers.get_mut(&key) {
                Some(it) if it.turn != self.turn => {}
                Some(it) if it.after.is_some() => it.release(),
                Some(_) => {
                    inside.followers.swap_remove(&key);
                    let mut inner = self.socket.state().inner.lock();
                    inner.joined.remove(&self.room.id);
                }
                None => {}
            }
        });
    }
}

impl Follower {
    fn knows(&self, point: Point) -> bool {
        self.after.is_some_and(|after| !after.precedes(point))
    }

    fn release(&mut self) {
        let held = self.held.take();
        for (point, frame) in held.into_iter().flat_map(|held| held.0) {
            if !self.knows(point) {
                self.socket.send(&frame);
            }
        }
    }
}

impl Room {
    /// Ends the streams of those who are meant, and tells them.
    fn evict(&self, inside: &mut Inside, meant: impl Fn(&State) -> bool) {
        let frame = self.gateway.removed(&self.id);
        inside.followers.retain(|_, follower| {
            let state = follower.socket.state();
            if !meant(state) {
                return true;
            }
            let mut inner = state.inner.lock();
            inner.joined.remove(&self.id);
            inner.removed = Some(self.id.clone());
            drop(inner);
            follower.socket.send(&frame);
            false
        });
    }

    /// Put out from within news, where the following cannot end.
    pub(super) fn evict_later(&self, inside: &mut Inside, meant: impl Fn(&State) -> bool) {
        self.evict(inside, meant);
        if inside.is_empty() {
            let (gateway, id) = (Arc::clone(&self.gateway), self.id.clone());
            let sweep = async move { gateway.rooms.change(&id, |_, _| {}) };
            self.gateway.runtime.spawn(sweep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_message_is_told_as_new_or_as_changed_or_is_known() {
        let told = |seq, rev| {
            let after = Cursor { seq, rev };
            let changed = Point::Ahead { seq: 5, rev: 9 };
            (after.precedes(Point::Message(5)), after.precedes(changed))
        };
        assert_eq!(told(4, 8), (true, false));
        assert_eq!(told(4, 9), (true, false));
        assert_eq!(told(5, 8), (false, true));
        assert_eq!(told(6, 0), (false, true));
        assert_eq!(told(5, 9), (false, false));
    }
}
