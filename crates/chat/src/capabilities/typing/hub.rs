//! The rooms of a node: the conversations that somebody here listens to.
//!
//! Always true:
//! 1. A room is open while somebody has a seat in it, and has one subscription of its own while it is.
//! 2. Whoever gives up on the way to a seat leaves nothing behind.
//! 3. A room whose frames may be missing is read again, whatever becomes of the call that reads it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use parlor_store::{BusEvent, BusSubscription};

use super::ends::TypingEndIndex;
use super::mailbox::ListenerMailbox;
use super::model::{self, TypingUser};
use super::query;
use super::room::ConversationTyping;
use crate::api::error::Result;
use crate::background::BackgroundTask;
use crate::bus::frame::{BusFrame, BusFrameKind};
use crate::context::ChatContext;
use crate::ids::ConversationId;
use crate::keys::TtlName;

/// Rooms that are read in one round trip.
const PAGE: usize = 500;

pub(super) struct TypingRegistry {
    ctx: ChatContext,
    rooms: Mutex<HashMap<ConversationId, OpenConversation>>,
    ends: Arc<TypingEndIndex>,
    /// Rooms whose frames may be missing.
    missed: Mutex<HashSet<ConversationId>>,
    /// Held while rooms are read again: a room knows of one question at a time.
    reread_lock: tokio::sync::Mutex<()>,
}

/// A room that is open, and how many have a seat.
struct OpenConversation {
    room: Arc<ConversationTyping>,
    listeners: usize,
}

/// A place in a room. Dropping it leaves the room.
pub(super) struct ListenerRegistration {
    hub: Arc<TypingRegistry>,
    room: Arc<ConversationTyping>,
    mailbox: Arc<ListenerMailbox>,
}

impl ListenerRegistration {
    /// A place in the room of a conversation, which is opened if it has to be; nothing is told yet.
    pub(super) fn take(
        hub: &Arc<TypingRegistry>,
        mailbox: &Arc<ListenerMailbox>,
        conversation: &ConversationId,
    ) -> Self {
        let mut rooms = hub.rooms.lock();
        let open = rooms.entry(conversation.clone()).or_insert_with(|| {
            let longest = hub.ctx.keys().ttl(TtlName::Typing);
            OpenConversation {
                room: Arc::new(ConversationTyping::new(
                    conversation.clone(),
                    Arc::clone(&hub.ends),
                    longest,
                )),
                listeners: 0,
            }
        });
        open.listeners += 1;
        Self {
            hub: Arc::clone(hub),
            room: Arc::clone(&open.room),
            mailbox: Arc::clone(mailbox),
        }
    }

    /// Listens from now on; who types.
    pub(super) async fn start_listening(&self) -> Result<Vec<TypingUser>> {
        let reader = &self.room.reader;
        reader
            .get_or_try_init(|| self.hub.subscribe(&self.room))
            .await?;
        Ok(self.room.add_listener(&self.mailbox, self.hub.ctx.now()))
    }
}

impl Drop for ListenerRegistration {
    fn drop(&mut self) {
        self.room.remove_listener(&self.mailbox);
        let mut rooms = self.hub.rooms.lock();
        if let Some(open) = rooms.get_mut(&self.room.conversation) {
            open.listeners -= 1;
            if open.listeners == 0 {
                rooms.remove(&self.room.conversation);
            }
        }
    }
}

impl TypingRegistry {
    pub(super) fn new(ctx: ChatContext) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            rooms: Mutex::default(),
            ends: Arc::default(),
            missed: Mutex::default(),
            reread_lock: tokio::sync::Mutex::default(),
        })
    }

    /// Fills a room and follows its channel. What is published while the store is asked waits in the subscription, and is
    /// heard after the answer.
    async fn subscribe(self: &Arc<Self>, room: &Arc<ConversationTyping>) -> Result<BackgroundTask> {
        let channel = self.ctx.keys().conversation_channel(&room.conversation);
        let bus = self.ctx.store().bus();
        let subscription = bus.subscribe_sharded(channel.as_str()).await?;
        let typers = query::read_typing_users(&self.ctx, [&room.conversation]).await?;
        let now = self.ctx.now();
        typers.into_iter().for_each(|it| room.apply_read(it, now));
        let reading = listen(Arc::downgrade(self), Arc::downgrade(room), subscription);
        Ok(BackgroundTask::spawn(reading))
    }

    fn take(&self, room: &ConversationTyping, event: &BusEvent) {
        let frame = match event {
            BusEvent::Message { payload, .. } => BusFrame::from(&payload[..]),
            BusEvent::MaybeMissed => BusFrame::UnknownVersion,
        };
        let typer = match frame {
            BusFrame::Known(BusFrameKind::Typing, body) => model::decode_typing_frame(body),
            BusFrame::Known(..) | BusFrame::UnknownKind => return,
            BusFrame::UnknownVersion => None,
        };
        match typer {
            Some(typer) => room.apply_frame(typer, self.ctx.now()),
            // What cannot be read is as good as missed.
            None => drop(self.missed.lock().insert(room.conversation.clone())),
        }
    }

    /// Ends the spells whose end has come.
    pub(super) fn expire_due(&self) {
        let now = self.ctx.now();
        for (conversation, user) in self.ends.take_due(now) {
            if let Some(room) = self.room(&conversation) {
                room.expire_if_over(&user, now);
            }
        }
    }

    /// Reads the rooms whose frames may be missing.
    pub(super) async fn read_missed(&self) -> Result<()> {
        let _asking = self.reread_lock.lock().await;
        let missed = std::mem::take(&mut *self.missed.lock());
        let rooms = missed.iter().filter_map(|it| self.room(it)).collect();
        let mut missed = RereadConversationsOnDrop { hub: self, rooms };
        while !missed.rooms.is_empty() {
            let first = missed.rooms.len().saturating_sub(PAGE);
            let page = &missed.rooms[first..];
            page.iter().for_each(|room| room.begin_read());
            let asked = page.iter().map(|room| &room.conversation);
            let answers = query::read_typing_users(&self.ctx, asked).await?;
            let now = self.ctx.now();
            for (room, typers) in missed.rooms.drain(first..).zip(answers) {
                room.apply_read(typers, now);
            }
        }
        Ok(())
    }

    fn room(&self, conversation: &ConversationId) -> Option<Arc<ConversationTyping>> {
        let rooms = self.rooms.lock();
        rooms.get(conversation).map(|open| Arc::clone(&open.room))
    }
}

/// Rooms that are to be read. Those that were not when it is dropped are read another time.
struct RereadConversationsOnDrop<'a> {
    hub: &'a TypingRegistry,
    rooms: Vec<Arc<ConversationTyping>>,
}

impl Drop for RereadConversationsOnDrop<'_> {
    fn drop(&mut self) {
        for room in &self.rooms {
            room.abort_read();
            let mut missed = self.hub.missed.lock();
            missed.insert(room.conversation.clone());
        }
    }
}

/// Hears what is published in a conversation as long as its room is open.
async fn listen(
    hub: Weak<TypingRegistry>,
    room: Weak<ConversationTyping>,
    mut subscription: BusSubscription,
) {
    while let Some(event) = subscription.next().await {
        let (Some(hub), Some(room)) = (hub.upgrade(), room.upgrade()) else {
            return;
        };
        hub.take(&room, &event);
    }
}
