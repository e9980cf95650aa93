//! Conversations that sockets of this node have joined.
//!
//! Invariants:
//! 1. The node is subscribed to a conversation while a socket has joined it or is joining, once for all sockets.
//! 2. While a socket joins, its events are held. When the join reply (or the replayed messages) is queued, the held
//!    events follow, in order, without those that the reply already contained.
//! 3. A socket of a removed member receives no event that was sent after the removal.
//! 4. Lock order: shard, conversation, socket state.

use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::Mutex;
use parlor_chat::api::error::Result;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::live::ConversationSubscriber;
use parlor_socketio::{DisconnectReason, EncodedEvent};

use super::sharded_map::ShardedMap;
use super::socket_state::UserSocketState;
use super::subscription::SharedSubscription;
use super::{GatewaySocket, SocketIoGateway};

/// Maximum number of events held for one socket while it joins.
const MAX_HELD_FRAMES: usize = 10_000;

/// All conversations that sockets of this node have joined.
#[derive(Default)]
pub(super) struct JoinedConversations(ShardedMap<ConversationId, Arc<JoinedConversation>>);

/// A conversation that sockets have joined, with the subscription of this node.
pub(super) struct JoinedConversation {
    pub(super) id: ConversationId,
    pub(super) gateway: Arc<SocketIoGateway>,
    pub(super) sockets: Mutex<ConversationSockets>,
    subscription: SharedSubscription,
}

/// Sockets of a conversation.
#[derive(Default)]
pub(super) struct ConversationSockets {
    /// By the address of the `Socket` allocation, which is stable while the socket is listed.
    pub(super) joined: IndexMap<usize, JoinedSocket>,
    /// Joins in progress.
    pending_joins: usize,
}

/// A socket that has joined a conversation, or whose join is in progress.
pub(super) struct JoinedSocket {
    pub(super) socket: Arc<GatewaySocket>,
    /// Last `seq` and `rev` that the client received before the live events; `None` until the first join is complete.
    known_position: Option<KnownPosition>,
    /// Events held while a join is in progress.
    held_frames: Option<Box<PendingJoinFrames>>,
    /// Number of the latest join. A client may send a second join while the first is still reading; only the latest one
    /// completes.
    join_number: u32,
}

/// Held events; boxed in [`JoinedSocket`], because mostly there are none.
#[derive(Default)]
struct PendingJoinFrames(Vec<(EventPosition, EncodedEvent)>);

/// Last `seq` and `rev` that a socket received without live events.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KnownPosition {
    pub(super) seq: u64,
    pub(super) rev: u64,
}

/// Position of an event in a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) enum EventPosition {
    Message(u64),
    Change(u64),
    /// Change of a message whose event was not delivered yet; for sockets that got the message with their join.
    UndeliveredChange {
        seq: u64,
        rev: u64,
    },
    /// No position: goes to every socket.
    Unordered,
}

impl KnownPosition {
    const fn is_before(self, position: EventPosition) -> bool {
        match position {
            EventPosition::Message(seq) => seq > self.seq,
            EventPosition::Change(rev) => rev > self.rev,
            EventPosition::UndeliveredChange { seq, rev } => seq <= self.seq && rev > self.rev,
            EventPosition::Unordered => true,
        }
    }
}

fn socket_key(socket: &Arc<GatewaySocket>) -> usize {
    Arc::as_ptr(socket) as usize
}

impl ConversationSockets {
    fn is_empty(&self) -> bool {
        self.joined.is_empty() && self.pending_joins == 0
    }

    /// Sends an event to all sockets, except those of one user.
    pub(super) fn broadcast(
        &mut self,
        position: EventPosition,
        frame: &EncodedEvent,
        except: Option<&UserId>,
    ) {
        for joined in self.joined.values_mut() {
            if except.is_some_and(|except| joined.socket.state().device.user == *except) {
                continue;
            }
            let is_known = joined.already_knows(position);
            match &mut joined.held_frames {
                None if is_known => {}
                None => joined.socket.send(frame),
                Some(held) if held.0.len() < MAX_HELD_FRAMES => {
                    held.0.push((position, frame.clone()));
                }
                // This reason sends no DISCONNECT packet, so the client reconnects and resumes.
                Some(_) => joined.socket.disconnect(DisconnectReason::ServerShutdown),
            }
        }
    }
}

/// A join in progress; undone on drop.
pub(super) struct PendingJoin {
    conversation: Arc<JoinedConversation>,
    socket: Arc<GatewaySocket>,
    join_number: u32,
    is_complete: bool,
}

impl JoinedConversations {
    /// Begins a join: from now on the events of the conversation are held for the socket.
    pub(super) fn begin_join(
        gateway: &Arc<SocketIoGateway>,
        id: &ConversationId,
        socket: &Arc<GatewaySocket>,
    ) -> PendingJoin {
        gateway.joined_conversations.0.with_shard(id, |shard| {
            let conversation = shard.entry(id.clone()).or_insert_with(|| {
                Arc::new(JoinedConversation {
                    id: id.clone(),
                    gateway: Arc::clone(gateway),
                    sockets: Mutex::default(),
                    subscription: SharedSubscription::default(),
                })
            });
            let mut sockets = conversation.sockets.lock();
            sockets.pending_joins += 1;
            let entry = sockets.joined.entry(socket_key(socket));
            let joined = entry.or_insert_with(|| JoinedSocket {
                socket: Arc::clone(socket),
                known_position: None,
                held_frames: None,
                join_number: 0,
            });
            joined.held_frames.get_or_insert_default();
            joined.join_number = joined.join_number.wrapping_add(1);
            let join_number = joined.join_number;
            socket.state().mutable.lock().joined.insert(id.clone());
            drop(sockets);
            PendingJoin {
                conversation: Arc::clone(conversation),
                socket: Arc::clone(socket),
                join_number,
                is_complete: false,
            }
        })
    }

    /// Removes a socket from a conversation.
    pub(super) fn leave(&self, id: &ConversationId, socket: &Arc<GatewaySocket>) {
        self.update_and_drop_if_empty(id, |_, sockets| {
            sockets.joined.swap_remove(&socket_key(socket));
        });
    }

    /// Removes the sockets of a user who is no longer a member.
    pub(super) fn remove_user(&self, id: &ConversationId, user: &UserId) {
        self.update_and_drop_if_empty(id, |conversation, sockets| {
            conversation.remove_sockets(sockets, |it| !it.is_service && it.device.user == *user);
        });
    }

    /// Updates the sockets. After the last one, removes the conversation and ends the subscription.
    fn update_and_drop_if_empty(
        &self,
        id: &ConversationId,
        update: impl FnOnce(&JoinedConversation, &mut ConversationSockets),
    ) {
        let subscription = self.0.with_shard(id, |shard| {
            let conversation = shard.get(id)?;
            let mut sockets = conversation.sockets.lock();
            update(conversation, &mut sockets);
            if !sockets.is_empty() {
                return None;
            }
            drop(sockets);
            let conversation = shard.remove(id)?;
            conversation.subscription.take()
        });
        drop(subscription);
    }
}

impl PendingJoin {
    /// Subscribes the node to the conversation if it is not subscribed. Has to complete before the missed messages are
    /// read.
    pub(super) async fn subscribe(&self) -> Result<()> {
        let conversation = &self.conversation;
        let subscriber = Arc::clone(conversation) as Arc<dyn ConversationSubscriber>;
        let live = conversation.gateway.chat().live();
        let subscribe = live.conversation(&conversation.id, subscriber);
        conversation.subscription.activate(subscribe).await
    }

    /// Completes the join: `first` queues the reply, then the held events follow. False if the socket was removed
    /// meanwhile. If the socket began a later join, nothing is sent here: the held events belong to the reply of that
    /// join.
    pub(super) fn complete(mut self, after: KnownPosition, first: impl FnOnce()) -> bool {
        self.is_complete = true;
        let mut is_joined = false;
        self.conversation
            .gateway
            .joined_conversations
            .update_and_drop_if_empty(&self.conversation.id, |_, sockets| {
                sockets.pending_joins -= 1;
                if let Some(joined) = sockets.joined.get_mut(&socket_key(&self.socket)) {
                    is_joined = true;
                    if joined.join_number == self.join_number {
                        first();
                        joined.known_position = Some(after);
                        joined.send_held_frames();
                    }
                }
            });
        is_joined
    }
}

impl Drop for PendingJoin {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        self.conversation
            .gateway
            .joined_conversations
            .update_and_drop_if_empty(&self.conversation.id, |_, sockets| {
                sockets.pending_joins -= 1;
                let key = socket_key(&self.socket);
                match sockets.joined.get_mut(&key) {
                    Some(it) if it.join_number != self.join_number => {}
                    Some(it) if it.known_position.is_some() => it.send_held_frames(),
                    Some(_) => {
                        sockets.joined.swap_remove(&key);
                        let mut mutable = self.socket.state().mutable.lock();
                        mutable.joined.remove(&self.conversation.id);
                    }
                    None => {}
                }
            });
    }
}

impl JoinedSocket {
    fn already_knows(&self, position: EventPosition) -> bool {
        self.known_position
            .is_some_and(|after| !after.is_before(position))
    }

    fn send_held_frames(&mut self) {
        let held = self.held_frames.take();
        for (position, frame) in held.into_iter().flat_map(|held| held.0) {
            if !self.already_knows(position) {
                self.socket.send(&frame);
            }
        }
    }
}

impl JoinedConversation {
    /// Removes the matching sockets and sends them `conversation:removed`.
    fn remove_sockets(
        &self,
        sockets: &mut ConversationSockets,
        matches: impl Fn(&UserSocketState) -> bool,
    ) {
        let frame = self.gateway.encode_removed_event(self.id.as_str());
        sockets.joined.retain(|_, joined| {
            let state = joined.socket.state();
            if !matches(state) {
                return true;
            }
            let mut mutable = state.mutable.lock();
            mutable.joined.remove(&self.id);
            mutable.last_removed = Some(self.id.clone());
            drop(mutable);
            joined.socket.send(&frame);
            false
        });
    }

    /// Removes the matching sockets from within an event, where the subscription cannot be dropped: a task does that.
    pub(super) fn remove_sockets_deferred(
        &self,
        sockets: &mut ConversationSockets,
        matches: impl Fn(&UserSocketState) -> bool,
    ) {
        self.remove_sockets(sockets, matches);
        if sockets.is_empty() {
            let (gateway, id) = (Arc::clone(&self.gateway), self.id.clone());
            let sweep = async move {
                gateway
                    .joined_conversations
                    .update_and_drop_if_empty(&id, |_, _| {});
            };
            self.gateway.runtime.spawn(sweep);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_classifies_a_changed_message_as_new_changed_or_known() {
        let classify = |seq, rev| {
            let after = KnownPosition { seq, rev };
            let changed = EventPosition::UndeliveredChange { seq: 5, rev: 9 };
            (
                after.is_before(EventPosition::Message(5)),
                after.is_before(changed),
            )
        };
        assert_eq!(classify(4, 8), (true, false));
        assert_eq!(classify(4, 9), (true, false));
        assert_eq!(classify(5, 8), (false, true));
        assert_eq!(classify(6, 0), (false, true));
        assert_eq!(classify(5, 9), (false, false));
    }
}
