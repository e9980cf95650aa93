//! The rooms of a node: the conversations that somebody here listens to.
//!
//! Always true:
//! 1. A room is open while somebody has a seat in it, and has one subscription of its own while it is.
//! 2. Whoever gives up on the way to a seat leaves nothing behind.
//! 3. A room whose frames may be missing is read again, whatever becomes of the call that reads it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use parlor_store::{Event, Subscription};

use super::ends::Ends;
use super::mailbox::Mailbox;
use super::ops::{self, Typer};
use super::reads;
use super::room::Room;
use crate::bus::frame::{Frame, Kind};
use crate::context::Context;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::keys::TtlName;
use crate::ticking::Task;

/// Rooms that are read in one round trip.
const PAGE: usize = 500;

pub(super) struct Hub {
    ctx: Context,
    rooms: Mutex<HashMap<ConversationId, Open>>,
    ends: Arc<Ends>,
    /// Rooms whose frames may be missing.
    missed: Mutex<HashSet<ConversationId>>,
    /// Held while rooms are read again: a room knows of one question at a time.
    asking: tokio::sync::Mutex<()>,
}

/// A room that is open, and how many have a seat.
struct Open {
    room: Arc<Room>,
    seats: usize,
}

/// A place in a room. Dropping it leaves the room.
pub(super) struct Seat {
    hub: Arc<Hub>,
    room: Arc<Room>,
    mailbox: Arc<Mailbox>,
}

impl Seat {
    /// A place in the room of a conversation, which is opened if it has to be; nothing is told yet.
    pub(super) fn take(
        hub: &Arc<Hub>,
        mailbox: &Arc<Mailbox>,
        conversation: &ConversationId,
    ) -> Self {
        let mut rooms = hub.rooms.lock();
        let open = rooms.entry(conversation.clone()).or_insert_with(|| {
            let longest = hub.ctx.keys().ttl(TtlName::Typing);
            Open {
                room: Arc::new(Room::new(
                    conversation.clone(),
                    Arc::clone(&hub.ends),
                    longest,
                )),
                seats: 0,
            }
        });
        open.seats += 1;
        Self {
            hub: Arc::clone(hub),
            room: Arc::clone(&open.room),
            mailbox: Arc::clone(mailbox),
        }
    }

    /// Listens from now on; who types.
    pub(super) async fn sit(&self) -> Result<Vec<Typer>> {
        let reader = &self.room.reader;
        reader
            .get_or_try_init(|| self.hub.follow(&self.room))
            .await?;
        Ok(self.room.sit(&self.mailbox, self.hub.ctx.now()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.rise(&self.mailbox);
        let mut rooms = self.hub.rooms.lock();
        if let Some(open) = rooms.get_mut(&self.room.conversation) {
            open.seats -= 1;
            if open.seats == 0 {
                rooms.remove(&self.room.conversation);
            }
        }
    }
}

impl Hub {
    pub(super) fn new(ctx: Context) -> Arc<Self> {
        Arc::new(Self {
            ctx,
            rooms: Mutex::default(),
            ends: Arc::default(),
            missed: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        })
    }

    /// Fills a room and follows its channel. What is published while the store is asked waits in the subscription, and is
    /// heard after the answer.
    async fn follow(self: &Arc<Self>, room: &Arc<Room>) -> Result<Task> {
        let channel = self.ctx.keys().conversation_bus(&room.conversation);
        let bus = self.ctx.store().bus();
        let subscription = bus.subscribe_sharded(channel.as_str()).await?;
        let typers = reads::read(&self.ctx, [&room.conversation]).await?;
        let now = self.ctx.now();
        typers.into_iter().for_each(|it| room.answer(it, now));
        let reading = listen(Arc::downgrade(self), Arc::downgrade(room), subscription);
        Ok(Task::spawn(reading))
    }

    fn take(&self, room: &Room, event: &Event) {
        let frame = match event {
            Event::Message { payload, .. } => Frame::from(&payload[..]),
            Event::MaybeMissed => Frame::OtherVersion,
        };
        let typer = match frame {
            Frame::Known(Kind::Typing, body) => ops::decode(body),
            Frame::Known(..) | Frame::OtherKind => return,
            Frame::OtherVersion => None,
        };
        match typer {
            Some(typer) => room.hear(typer, self.ctx.now()),
            // What cannot be read is as good as missed.
            None => drop(self.missed.lock().insert(room.conversation.clone())),
        }
    }

    /// Ends the spells whose end has come.
    pub(super) fn end_due(&self) {
        let now = self.ctx.now();
        for (conversation, user) in self.ends.take_due(now) {
            if let Some(room) = self.room(&conversation) {
                room.look(&user, now);
            }
        }
    }

    /// Reads the rooms whose frames may be missing.
    pub(super) async fn read_missed(&self) -> Result<()> {
        let _asking = self.asking.lock().await;
        let missed = std::mem::take(&mut *self.missed.lock());
        let rooms = missed.iter().filter_map(|it| self.room(it)).collect();
        let mut missed = Missed { hub: self, rooms };
        while !missed.rooms.is_empty() {
            let first = missed.rooms.len().saturating_sub(PAGE);
            let page = &missed.rooms[first..];
            page.iter().for_each(|room| room.ask());
            let asked = page.iter().map(|room| &room.conversation);
            let answers = reads::read(&self.ctx, asked).await?;
            let now = self.ctx.now();
            for (room, typers) in missed.rooms.drain(first..).zip(answers) {
                room.answer(typers, now);
            }
        }
        Ok(())
    }

    fn room(&self, conversation: &ConversationId) -> Option<Arc<Room>> {
        let rooms = self.rooms.lock();
        rooms.get(conversation).map(|open| Arc::clone(&open.room))
    }
}

/// Rooms that are to be read. Those that were not when it is dropped are read another time.
struct Missed<'a> {
    hub: &'a Hub,
    rooms: Vec<Arc<Room>>,
}

impl Drop for Missed<'_> {
    fn drop(&mut self) {
        for room in &self.rooms {
            room.ask_no_more();
            let mut missed = self.hub.missed.lock();
            missed.insert(room.conversation.clone());
        }
    }
}

/// Hears what is published in a conversation as long as its room is open.
async fn listen(hub: Weak<Hub>, room: Weak<Room>, mut subscription: Subscription) {
    while let Some(event) = subscription.next().await {
        let (Some(hub), Some(room)) = (hub.upgrade(), room.upgrade()) else {
            return;
        };
        hub.take(&room, &event);
    }
}
