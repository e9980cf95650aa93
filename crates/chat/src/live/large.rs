//! Conversations above the fan-out limit: those of their members who are followed here are told that there is a message.
//!
//! Always true:
//! 1. A member is told of a conversation at most once a second, whatever nodes say, and of the newest message.
//! 2. The members are those of the version that was said, or later ones. They are kept up to [`MOST_KEPT`] in all.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use parlor_store::{Event, Listening, Sink};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Serialize;
use tokio::sync::{Notify, OnceCell};

use super::Live;
use super::news::UserNews;
use crate::bus::frame::{Frame, Kind};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::paced::Paced;
use crate::ticking::told;
use crate::unread::large::{self, Newest, PACE};

/// Conversations, and members in all, that are remembered.
const MOST_CONVERSATIONS: usize = 1_000;
const MOST_KEPT: u64 = 500_000;
/// Members of one conversation who are told: the first ones by their id.
const MOST_MEMBERS: usize = 200_000;
/// Conversations that wait to be told.
const MOST_READY: usize = 10_000;

/// The members at a version of the row.
#[derive(Clone)]
struct Members {
    version: u64,
    users: Arc<HashSet<UserId>>,
}

#[derive(Clone)]
struct ByUsers;

impl Weighter<ConversationId, Members> for ByUsers {
    fn weight(&self, _: &ConversationId, members: &Members) -> u64 {
        members.users.len() as u64 + 1
    }
}

/// What a node knows of large conversations.
pub(super) struct Large {
    listening: OnceCell<Listening>,
    paced: Paced<Newest>,
    ready: Mutex<HashMap<ConversationId, Newest>>,
    pub(super) heard: Notify,
    members: Cache<ConversationId, Members, ByUsers>,
}

impl Default for Large {
    fn default() -> Self {
        Self {
            listening: OnceCell::new(),
            paced: Paced::new(PACE),
            ready: Mutex::default(),
            heard: Notify::new(),
            members: Cache::with_weighter(MOST_CONVERSATIONS, MOST_KEPT, ByUsers),
        }
    }
}

/// Hears what all nodes say.
struct Ear(Weak<Live>);

impl Sink for Ear {
    fn tell(&self, event: &Event) {
        let Some(live) = self.0.upgrade() else { return };
        match event {
            Event::Message { payload, .. } => live.heard_large(payload),
            // Elsewhere the channels of the users are on the same connection, and say it themselves.
            Event::MaybeMissed if live.ctx.keys().cluster() => {
                for line in live.lines.all() {
                    line.tell(&UserNews::MaybeMissed);
                }
            }
            Event::MaybeMissed => {}
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LargeUnread<'a> {
    conversation_id: &'a ConversationId,
    last_seq: u64,
}

impl Live {
    /// Listens to what nodes say of large conversations, from the first user on.
    pub(super) async fn hear_large(self: &Arc<Self>) -> Result<()> {
        let listening = self.large.listening.get_or_try_init(async || {
            let channel = self.ctx.keys().large_bus();
            let ear = Arc::new(Ear(Arc::downgrade(self)));
            self.ctx.store().bus().listen(channel.as_str(), ear).await
        });
        listening.await?;
        Ok(())
    }

    fn heard_large(&self, frame: &[u8]) {
        let Frame::Known(Kind::Large, body) = Frame::from(frame) else {
            return;
        };
        let Some((conversation, newest)) = large::decode(body) else {
            return;
        };
        let now = self.ctx.now();
        if let Some(newest) = self.large.paced.offer(&conversation, newest, now) {
            self.large.is_ready(conversation, newest);
            self.large.heard.notify_one();
        }
    }

    /// Tells the members of large conversations what was heard and has waited long enough.
    pub(super) async fn tell_large(&self) -> Result<()> {
        for (conversation, newest) in self.large.paced.due(self.ctx.now()) {
            self.large.is_ready(conversation, newest);
        }
        let ready = std::mem::take(&mut *self.large.ready.lock());
        for (conversation, newest) in ready {
            let members = self.members_at(&conversation, newest.1).await;
            told("read the members of a large conversation", &members);
            // The next message is told again.
            let Ok(members) = members else { continue };
            let news = LargeUnread {
                conversation_id: &conversation,
                last_seq: newest.0,
            };
            let json = serde_json::to_vec(&news).expect("a text and a number are JSON");
            for line in self.lines.among(&members) {
                line.tell(&UserNews::Unread(&json));
            }
        }
        Ok(())
    }

    async fn members_at(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<HashSet<UserId>>> {
        let known = self.large.members.get(conversation);
        if let Some(known) = known.filter(|known| known.version >= version) {
            return Ok(known.users);
        }
        let users = self.conversations.all_members(conversation, MOST_MEMBERS);
        let users = Arc::new(users.await?);
        let members = Members {
            version,
            users: Arc::clone(&users),
        };
        self.large.members.insert(conversation.clone(), members);
        Ok(users)
    }
}

impl Large {
    fn is_ready(&self, conversation: ConversationId, newest: Newest) {
        let mut ready = self.ready.lock();
        if ready.len() < MOST_READY || ready.contains_key(&conversation) {
            let known = ready.entry(conversation).or_insert(newest);
            *known = newest.max(*known);
        }
    }
}
