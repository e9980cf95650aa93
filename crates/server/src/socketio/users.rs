//! Users with a socket on this node. An event for a user goes to all sockets of the user on this node.
//!
//! Invariants:
//! 1. The node is subscribed to a user while the user has a socket here or a handshake in progress, once for all
//!    sockets.
//! 2. Lock order: shard, user, socket state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use parlor_chat::api::error::Result;
use parlor_chat::ids::{ConversationId, UserId};
use parlor_chat::live::{LiveSubscription, UserEvent, UserSubscriber};
use parlor_chat::unread::UnreadChange;
use smallvec::SmallVec;

use super::bodies::Conversation;
use super::deferred_tasks::DeferredTask;
use super::sharded_map::ShardedMap;
use super::{GatewaySocket, SocketIoGateway, encode_json};

/// Time for the conversation's own events to remove the sockets of a removed member in order. Afterwards they are
/// removed anyway.
const REMOVAL_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// All users with a socket on this node.
#[derive(Default)]
pub(super) struct ConnectedUsers(ShardedMap<UserId, Arc<ConnectedUser>>);

/// A user with a socket on this node.
pub(super) struct ConnectedUser {
    user: UserId,
    gateway: Arc<SocketIoGateway>,
    sockets: Mutex<UserSockets>,
    subscription: Mutex<SubscriptionState>,
    /// A task that sends all unread counts again is queued.
    recount_queued: AtomicBool,
}

/// State of the subscription to the user's events.
enum SubscriptionState {
    /// Not subscribed. A task that subscribes holds the lock.
    Inactive(Option<Arc<tokio::sync::Mutex<()>>>),
    Active {
        _follow: LiveSubscription,
    },
}

#[derive(Default)]
struct UserSockets {
    sockets: SmallVec<[Arc<GatewaySocket>; 1]>,
    /// Sockets whose handshake is in progress.
    reserved: u32,
}

impl UserSockets {
    fn is_empty(&self) -> bool {
        self.sockets.is_empty() && self.reserved == 0
    }
}

/// Reservation for a socket whose handshake is in progress; released on drop.
pub(super) struct SocketReservation(Option<Arc<ConnectedUser>>);

impl SocketReservation {
    /// Reserves a socket of a user. The first reservation subscribes the node to the user.
    pub(super) async fn reserve(gateway: &Arc<SocketIoGateway>, user: &UserId) -> Result<Self> {
        let person = gateway.connected_users.0.with_shard(user, |shard| {
            let person = shard.entry(user.clone()).or_insert_with(|| {
                Arc::new(ConnectedUser {
                    user: user.clone(),
                    gateway: Arc::clone(gateway),
                    sockets: Mutex::default(),
                    subscription: Mutex::new(SubscriptionState::Inactive(None)),
                    recount_queued: AtomicBool::new(false),
                })
            });
            person.sockets.lock().reserved += 1;
            Arc::clone(person)
        });
        let place = Self(Some(person));
        place.user().subscribe().await?;
        Ok(place)
    }

    pub(super) fn user(&self) -> &Arc<ConnectedUser> {
        self.0
            .as_ref()
            .expect("a reservation has a user until it is converted")
    }

    /// Ends the guard; [`ConnectedUser::add_socket`] then uses the reservation.
    pub(super) fn into_user(mut self) -> Arc<ConnectedUser> {
        self.0.take().expect("a reservation is converted once")
    }
}

impl Drop for SocketReservation {
    fn drop(&mut self) {
        if let Some(person) = self.0.take() {
            person.update_and_drop_if_empty(|inside| inside.reserved -= 1);
        }
    }
}

impl ConnectedUser {
    async fn subscribe(self: &Arc<Self>) -> Result<()> {
        let opening = match &mut *self.subscription.lock() {
            SubscriptionState::Active { .. } => return Ok(()),
            SubscriptionState::Inactive(opening) => Arc::clone(opening.get_or_insert_default()),
        };
        let _opening = opening.lock().await;
        if let SubscriptionState::Active { .. } = &*self.subscription.lock() {
            return Ok(());
        }
        let sink = Arc::clone(self) as Arc<dyn UserSubscriber>;
        let follow = self.gateway.chat().live().user(&self.user, sink).await?;
        *self.subscription.lock() = SubscriptionState::Active { _follow: follow };
        Ok(())
    }

    /// Adds a socket in place of its reservation.
    pub(super) fn add_socket(&self, socket: &Arc<GatewaySocket>) {
        let mut inside = self.sockets.lock();
        inside.reserved -= 1;
        inside.sockets.push(Arc::clone(socket));
    }

    /// Removes a socket.
    pub(super) fn remove_socket(&self, socket: &Arc<GatewaySocket>) {
        self.update_and_drop_if_empty(|inside| {
            inside.sockets.retain(|it| !Arc::ptr_eq(it, socket));
        });
    }

    /// Sockets of the user on this node.
    pub(super) fn sockets(&self) -> SmallVec<[Arc<GatewaySocket>; 1]> {
        self.sockets.lock().sockets.clone()
    }

    /// Updates the sockets. After the last one, removes the user and ends the subscription.
    fn update_and_drop_if_empty(&self, out: impl FnOnce(&mut UserSockets)) {
        let follow = self
            .gateway
            .connected_users
            .0
            .with_shard(&self.user, |shard| {
                let mut inside = self.sockets.lock();
                out(&mut inside);
                if !inside.is_empty() {
                    return None;
                }
                shard.remove(&self.user);
                Some(std::mem::replace(
                    &mut *self.subscription.lock(),
                    SubscriptionState::Inactive(None),
                ))
            });
        drop(follow);
    }

    fn send_to_sockets(&self, name: &str, json: &[u8]) {
        let inside = self.sockets.lock();
        if inside.sockets.is_empty() {
            return;
        }
        let frame = self.gateway.encode_recoverable_event(name, json);
        for socket in &inside.sockets {
            socket.send(&frame);
        }
    }

    /// True if a socket of the user has joined the conversation.
    fn has_joined(&self, conversation: &ConversationId) -> bool {
        let inside = self.sockets.lock();
        let mut states = inside.sockets.iter().map(|it| it.state());
        states.any(|it| it.mutable.lock().joined.contains(conversation))
    }

    fn notify_added(&self, conversation: &ConversationId) {
        for socket in &self.sockets.lock().sockets {
            let mut state = socket.state().mutable.lock();
            // The next removal from this conversation is a new one and has to be sent.
            if state.last_removed.as_ref() == Some(conversation) {
                state.last_removed = None;
            }
        }
        let added = Conversation {
            conversation_id: conversation.to_string(),
        };
        self.send_to_sockets("conversation:added", &encode_json(&added));
    }

    fn notify_removed(&self, conversation: &ConversationId) {
        let frame = self.gateway.removed(conversation);
        let mut joined = false;
        for socket in &self.sockets.lock().sockets {
            let mut state = socket.state().mutable.lock();
            // A joined socket is removed by the conversation's own events, after the messages before the removal.
            if state.joined.contains(conversation) {
                joined = true;
            } else if state.last_removed.as_ref() == Some(conversation) {
                state.last_removed = None;
            } else {
                drop(state);
                socket.send(&frame);
            }
        }
        if joined {
            let (gateway, user) = (Arc::clone(&self.gateway), self.user.clone());
            let conversation = conversation.clone();
            self.gateway.runtime.spawn(async move {
                tokio::time::sleep(REMOVAL_GRACE_PERIOD).await;
                let person = gateway.connected_users.find(&user);
                if !person.is_some_and(|it| it.has_joined(&conversation)) {
                    return;
                }
                let members = gateway.chat().members();
                if let Ok(false) = members.is_member(&conversation, &user).await {
                    gateway
                        .joined_conversations
                        .remove_user(&conversation, &user);
                }
            });
        }
    }
}

impl SocketIoGateway {
    /// Sends all unread counts to a user's sockets, after unread events may have been lost. A conversation that was
    /// read on another device meanwhile is not included; its next change corrects it.
    pub(super) async fn resend_unread_counts(&self, user: &UserId) -> Result<()> {
        let Some(person) = self.connected_users.find(user) else {
            return Ok(());
        };
        // Cleared first: events that are lost from now on need another task.
        person.recount_queued.store(false, Ordering::Release);
        let counts = self.chat().unread().get_summary(user).await?;
        for counted in counts.conversations {
            let change = UnreadChange {
                conversation_id: counted.conversation_id,
                count: counted.count,
                total: counts.total,
            };
            person.send_to_sockets("unread", &encode_json(&change));
        }
        Ok(())
    }
}

impl UserSubscriber for ConnectedUser {
    fn on_event(&self, news: &UserEvent<'_>) {
        match news {
            UserEvent::UnreadChanged(json) => self.send_to_sockets("unread", json),
            UserEvent::MembershipChanged {
                conversation,
                joined: true,
            } => self.notify_added(conversation),
            UserEvent::MembershipChanged { conversation, .. } => self.notify_removed(conversation),
            UserEvent::EventsMaybeLost => {
                if !self.recount_queued.swap(true, Ordering::AcqRel) {
                    let recount = DeferredTask::ResendUnreadCounts(self.user.clone());
                    self.gateway.deferred_tasks.enqueue(recount);
                }
            }
        }
    }
}

impl ConnectedUsers {
    /// The user, if it has a socket on this node.
    pub(super) fn find(&self, user: &UserId) -> Option<Arc<ConnectedUser>> {
        self.0.with_shard(user, |shard| shard.get(user).cloned())
    }
}
