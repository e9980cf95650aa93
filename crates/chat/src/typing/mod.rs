//! Typing: who is writing in a conversation at this moment.
//!
//! Always true:
//! 1. Somebody types while their member of the conversation's index ends after now. The documented keys show it to others
//!    and decide nothing.
//! 2. The step that changes it publishes it, with the moment at which it ends; no timer of the node where it began is needed.
//! 3. Each node tells its own listeners that somebody stopped, once: by the frame of a stop, or when the end has come.
//! 4. What a node may have missed it reads from the store; a frame that came after it asked is newer than the answer.
//! 5. Any call may be given up at any moment. What it held is given back, what it did is whole.

pub mod keys;

mod ends;
mod hub;
mod listener;
mod mailbox;
mod operations;
mod ops;
mod reads;
mod room;
mod throttle;
mod tick;

use std::sync::Arc;
use std::time::Duration;

use parlor_store::{Call, Script, script};
use serde::Serialize;

use self::hub::Hub;
use self::throttle::Throttle;
use crate::context::{Context, Moment, millis};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::keys::{TtlName, TypingLayout};

pub(crate) use self::ops::decode;

pub use self::listener::{MOST_LISTENED, TypingListener};
pub use self::operations::{ListTyping, SetTyping, Typers, TypingSet};
pub use self::ops::{Typer, TypingChange};

static START: Script = script!("start.lua");
static STOP: Script = script!("stop.lua");

/// How often a start is written for one user in one conversation.
const THROTTLE: Duration = Duration::from_secs(2);
/// Starts that are remembered for that.
const MOST_THROTTLED: usize = 100_000;

/// Typing as one node sees and serves it.
pub struct Typing {
    ctx: Context,
    throttle: Throttle,
    hub: Arc<Hub>,
}

/// The value of the documented key in the layout `document`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    user_id: &'a UserId,
    username: &'a str,
    timestamp: u64,
}

impl Typing {
    /// The typing of a node.
    pub fn new(ctx: Context) -> Self {
        // Somebody who goes on typing must be written again before it ends.
        let window = THROTTLE.min(ctx.keys().ttl(TtlName::Typing) * 2 / 3);
        Self {
            hub: Hub::new(ctx.clone()),
            throttle: Throttle::new(window, MOST_THROTTLED),
            ctx,
        }
    }

    /// Somebody types, or still does: to be repeated while it lasts. Does nothing if it was written here a moment ago.
    pub async fn start(
        &self,
        conversation: &ConversationId,
        user: &UserId,
        username: Option<&str>,
    ) -> Result<()> {
        let now = self.ctx.now();
        let Some(claim) = self.throttle.claim(conversation, user, now) else {
            return Ok(());
        };
        let username = username.unwrap_or_default();
        let ttl = self.ctx.keys().ttl(TtlName::Typing);
        let until = now.plus(ttl);
        let call = self
            .step(&START, conversation, user)
            .arg(username)
            .arg(now.ms())
            .arg(until.ms())
            .arg(millis(ttl))
            .arg(self.value(user, username, now));
        let call = self.publishing(call, conversation, &ops::encode(user, username, until));
        let () = call.run(&self.ctx.store().repeatable()).await?;
        claim.keep();
        Ok(())
    }

    /// Somebody types no longer. Nobody is told if they did not.
    pub async fn stop(&self, conversation: &ConversationId, user: &UserId) -> Result<()> {
        let _clearing = self.throttle.clearing(conversation, user);
        let call = self
            .step(&STOP, conversation, user)
            .arg(self.ctx.now().ms());
        let call = self.publishing(call, conversation, &stopped_frame(user));
        Ok(call.run(&self.ctx.store().repeatable()).await?)
    }

    /// Somebody sent what they typed: the next start is written. The keys are cleared by the step that appends the message;
    /// where there is none, the sender's node calls [`stop`](Self::stop) instead.
    pub fn message_sent(&self, conversation: &ConversationId, user: &UserId) {
        self.throttle.clear(conversation, user);
    }

    /// Who types in a conversation, by user id. Costs as much as there are typers, and one round trip.
    pub async fn typers(&self, conversation: &ConversationId) -> Result<Vec<Typer>> {
        let mut typers = reads::read(&self.ctx, [conversation]).await?;
        Ok(typers.pop().expect("one reply for one conversation"))
    }

    /// Somebody who listens to no conversation yet.
    pub fn listener(&self) -> TypingListener {
        TypingListener::new(Arc::clone(&self.hub))
    }

    /// Tells the listeners whose typing has ended, and what was missed. To be called ten times a second. What cannot be
    /// read now is read by a later call.
    pub async fn expire(&self) -> Result<()> {
        self.hub.end_due();
        self.hub.read_missed().await
    }

    /// Forgets starts that no longer hold others back; how many are left. To be called now and then.
    pub fn clean(&self) -> usize {
        self.throttle.clean(self.ctx.now());
        self.throttle.len()
    }

    fn value(&self, user: &UserId, username: &str, now: Moment) -> String {
        match self.ctx.keys().settings().layouts.typing {
            TypingLayout::Flag => "1".to_owned(),
            TypingLayout::Document => {
                let document = Document {
                    user_id: user,
                    username: if username.is_empty() {
                        user.as_str()
                    } else {
                        username
                    },
                    timestamp: now.ms(),
                };
                serde_json::to_string(&document).expect("texts and a number are JSON")
            }
        }
    }

    fn step(&self, script: &'static Script, conversation: &ConversationId, user: &UserId) -> Call {
        let keys = self.ctx.keys();
        let names = [
            keys.typing(conversation, user),
            keys.typers(conversation),
            keys.typer_names(conversation),
        ];
        script.keys(&names).arg(user)
    }

    fn publishing(&self, call: Call, conversation: &ConversationId, frame: &[u8]) -> Call {
        call.arg(self.ctx.store().bus().publish_command())
            .arg(self.ctx.keys().conversation_bus(conversation))
            .arg(frame)
    }
}

/// The frame that says that somebody stopped, for the step that appends their message.
pub(crate) fn stopped_frame(user: &UserId) -> Vec<u8> {
    ops::encode(user, "", Moment(0))
}

impl std::fmt::Debug for Typing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Typing")
    }
}
