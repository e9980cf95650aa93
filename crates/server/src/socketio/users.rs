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
use parlor_chat::live::{UserEvent, UserSubscriber};
use parlor_chat::unread::UnreadChange;
use parlor_socketio::EncodedEvent;
use smallvec::SmallVec;

use super::bodies::{ConversationRef, UnreadUpdate};
use super::deferred_tasks::DeferredTask;
use super::server_events::{ConversationAddedEvent, ConversationUpdatedEvent, UnreadEvent};
use super::sharded_map::ShardedMap;
use super::subscription::SharedSubscription;
use super::{GatewaySocket, SocketIoGateway};

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
    subscription: SharedSubscription,
    /// A task that sends all unread counts again is queued.
    recount_queued: AtomicBool,
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
        let connected = gateway.connected_users.0.with_shard(user, |shard| {
            let connected = shard.entry(user.clone()).or_insert_with(|| {
                Arc::new(ConnectedUser {
                    user: user.clone(),
                    gateway: Arc::clone(gateway),
                    sockets: Mutex::default(),
                    subscription: SharedSubscription::default(),
                    recount_queued: AtomicBool::new(false),
                })
            });
            connected.sockets.lock().reserved += 1;
            Arc::clone(connected)
        });
        let reservation = Self(Some(connected));
        reservation.user().subscribe().await?;
        Ok(reservation)
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
        if let Some(user) = self.0.take() {
            user.update_and_drop_if_empty(|sockets| sockets.reserved -= 1);
        }
    }
}

impl ConnectedUser {
    async fn subscribe(self: &Arc<Self>) -> Result<()> {
        let subscriber = Arc::clone(self) as Arc<dyn UserSubscriber>;
        let live = self.gateway.chat().live();
        self.subscription
            .activate(live.user(&self.user, subscriber))
            .await
    }

    /// Adds a socket in place of its reservation.
    pub(super) fn add_socket(&self, socket: &Arc<GatewaySocket>) {
        let mut sockets = self.sockets.lock();
        sockets.reserved -= 1;
        sockets.sockets.push(Arc::clone(socket));
    }

    /// Removes a socket.
    pub(super) fn remove_socket(&self, socket: &Arc<GatewaySocket>) {
        self.update_and_drop_if_empty(|sockets| {
            sockets.sockets.retain(|it| !Arc::ptr_eq(it, socket));
        });
    }

    /// Sockets of the user on this node.
    pub(super) fn sockets(&self) -> SmallVec<[Arc<GatewaySocket>; 1]> {
        self.sockets.lock().sockets.clone()
    }

    /// Updates the sockets. After the last one, removes the user and ends the subscription.
    fn update_and_drop_if_empty(&self, update: impl FnOnce(&mut UserSockets)) {
        let subscription = self
            .gateway
            .connected_users
            .0
            .with_shard(&self.user, |shard| {
                let mut sockets = self.sockets.lock();
                update(&mut sockets);
                if !sockets.is_empty() {
                    return None;
                }
                shard.remove(&self.user);
                self.subscription.take()
            });
        drop(subscription);
    }

    fn send_to_sockets(&self, encode: impl FnOnce(&SocketIoGateway) -> EncodedEvent) {
        let sockets = self.sockets.lock();
        if sockets.sockets.is_empty() {
            return;
        }
        let frame = encode(&self.gateway);
        for socket in &sockets.sockets {
            socket.send(&frame);
        }
    }

    /// Sends an updated conversation to the sockets that have not joined it. The others get it from the conversation.
    fn send_conversation_updated(&self, conversation: &ConversationId, json: &[u8]) {
        let sockets = self.sockets();
        let joined = |it: &GatewaySocket| it.state().mutable.lock().joined.contains(conversation);
        let mut frame = None;
        for socket in sockets.iter().filter(|it| !joined(it)) {
            let frame = frame
                .get_or_insert_with(|| self.gateway.encode_body::<ConversationUpdatedEvent>(json));
            socket.send(frame);
        }
    }

    /// True if a socket of the user has joined the conversation.
    fn has_joined(&self, conversation: &ConversationId) -> bool {
        let sockets = self.sockets.lock();
        let mut states = sockets.sockets.iter().map(|it| it.state());
        states.any(|it| it.mutable.lock().joined.contains(conversation))
    }

    fn notify_added(&self, conversation: &ConversationId) {
        for socket in &self.sockets.lock().sockets {
            let mut mutable = socket.state().mutable.lock();
            // The next removal from this conversation is a new one and has to be sent.
            if mutable.last_removed.as_ref() == Some(conversation) {
                mutable.last_removed = None;
            }
        }
        let added = ConversationRef {
            conversation_id: conversation.to_string(),
        };
        self.send_to_sockets(|it| it.encode::<ConversationAddedEvent>(&added));
    }

    fn notify_removed(&self, conversation: &ConversationId) {
        let frame = self.gateway.encode_removed_event(conversation.as_str());
        let mut joined = false;
        for socket in &self.sockets.lock().sockets {
            let mut mutable = socket.state().mutable.lock();
            // A joined socket is removed by the conversation's own events, after the messages before the removal.
            if mutable.joined.contains(conversation) {
                joined = true;
            } else if mutable.last_removed.as_ref() == Some(conversation) {
                mutable.last_removed = None;
            } else {
                drop(mutable);
                socket.send(&frame);
            }
        }
        if joined {
            let (gateway, user) = (Arc::clone(&self.gateway), self.user.clone());
            let conversation = conversation.clone();
            self.gateway.runtime.spawn(async move {
                tokio::time::sleep(REMOVAL_GRACE_PERIOD).await;
                let connected = gateway.connected_users.find(&user);
                if !connected.is_some_and(|it| it.has_joined(&conversation)) {
                    return;
                }
                let members = gateway.chat().conversations();
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
        let Some(connected) = self.connected_users.find(user) else {
            return Ok(());
        };
        // Cleared first: events that are lost from now on need another task.
        connected.recount_queued.store(false, Ordering::Release);
        let counts = self.chat().unread().get_summary(user).await?;
        for counted in counts.conversations {
            let update = UnreadUpdate::Count(UnreadChange {
                conversation_id: counted.conversation_id,
                count: counted.count,
                total: counts.total,
            });
            connected.send_to_sockets(|it| it.encode::<UnreadEvent>(&update));
        }
        Ok(())
    }
}

impl UserSubscriber for ConnectedUser {
    fn on_event(&self, event: &UserEvent<'_>) {
        match event {
            UserEvent::UnreadChanged(json) => {
                self.send_to_sockets(|it| it.encode_body::<UnreadEvent>(json));
            }
            UserEvent::MembershipChanged {
                conversation,
                joined: true,
            } => self.notify_added(conversation),
            UserEvent::MembershipChanged { conversation, .. } => self.notify_removed(conversation),
            UserEvent::ConversationUpdated { conversation, json } => {
                self.send_conversation_updated(conversation, json);
            }
            UserEvent::EventsMaybeLost => {
                if !self.recount_queued.swap(true, Ordering::AcqRel) {
                    let task = DeferredTask::ResendUnreadCounts(self.user.clone());
                    self.gateway.deferred_tasks.enqueue(task);
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
