//! Typing indicators: which users are typing in a conversation.
//!
//! ```text
//!                 start (written at most every 2 s)
//!                  ┌──────┐
//!         start    ▼      │    stop, message sent, ends_at passed
//! IDLE ─────────▶ TYPING ─┴──────────────────────────────────────▶ IDLE
//! ```
//!
//! Invariants:
//! 1. A user is typing while the user's entry in the conversation's index ends after now. The documented keys are
//!    derived from it and decide nothing.
//! 2. The script that changes the typing state also publishes the end time. `live` counts it down on each node, so the
//!    end does not depend on the node where the typing began.
//! 3. Other services write the documented key as well. Parlor deletes it only while it holds the value that Parlor wrote
//!    last, and replaces it only if it ends earlier.
//! 4. Every future can be dropped at any time. An unused throttle permit is given back, and a script call happens
//!    completely or not at all.

pub mod keys;

mod frame;
mod model;
mod operation_group;
mod operations;

use std::sync::Arc;
use std::time::Duration;

use parlor_store::{LuaScript, ScriptCall, script};
use serde::Serialize;

use crate::api::error::Result;
use crate::background::{BackgroundTask, BackgroundTasks};
use crate::clock::{Timestamp, duration_millis};
use crate::context::ChatContext;
use crate::ids::{ConversationId, UserId};
use crate::keys::{TtlName, TypingLayout};
use crate::throttle::Throttle;

pub(crate) use self::frame::decode_typing_frame;

pub use self::model::{TypingChange, TypingUser};
pub use self::operation_group::OPERATIONS;
pub use self::operations::{ListTyping, SetTyping, TypingReply, TypingUserList};

static START_TYPING: LuaScript = script!("scripts/start_typing.lua");
static LIST_TYPING_USERS: LuaScript = script!("scripts/list_typing_users.lua");
static STOP_TYPING: LuaScript = LuaScript::new(
    "scripts/stop_typing.lua",
    concat!(
        include_str!("scripts/own_key.lua"),
        include_str!("scripts/stop_typing.lua")
    ),
);

/// Minimum time between two written starts of a user in a conversation.
const START_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of throttle entries.
const MAX_THROTTLE_ENTRIES: usize = 100_000;
/// Interval of the throttle cleanup.
const THROTTLE_CLEANUP_INTERVAL: Duration = Duration::from_secs(300);

/// Typing indicators of one node.
pub struct Typing {
    ctx: ChatContext,
    /// One start per user, conversation and interval is written.
    throttle: Throttle<(ConversationId, UserId)>,
}

/// The value of the documented key in the layout `document`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TypingDocument<'a> {
    user_id: &'a UserId,
    username: &'a str,
    timestamp: u64,
}

impl Typing {
    /// Creates the typing indicators of a node.
    pub fn new(ctx: ChatContext) -> Self {
        // The next start of a user who keeps typing must be written before the current one ends.
        let window = START_INTERVAL.min(ctx.keys().ttl(TtlName::Typing) * 2 / 3);
        Self {
            throttle: Throttle::new(window, MAX_THROTTLE_ENTRIES),
            ctx,
        }
    }

    /// Starts the background task.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![BackgroundTask::spawn_periodic(
            self,
            THROTTLE_CLEANUP_INTERVAL,
            "clean the typing throttle",
            |typing| async move {
                typing.throttle.remove_expired(typing.ctx.now());
                Ok(())
            },
        )])
    }

    /// Reports that a user is typing. Repeat it while the user types. Does nothing if this node has written a start of
    /// the user within the throttle interval.
    pub async fn start(
        &self,
        conversation: &ConversationId,
        user: &UserId,
        username: Option<&str>,
    ) -> Result<()> {
        let now = self.ctx.now();
        let Some(permit) = self
            .throttle
            .try_acquire(throttle_key(conversation, user), now)
        else {
            return Ok(());
        };
        let username = username.unwrap_or_default();
        let ttl = self.ctx.keys().ttl(TtlName::Typing);
        let ends_at = now.saturating_add(ttl);
        let call = self
            .script_call(&START_TYPING, conversation, user)
            .arg(username)
            .arg(now.as_millis())
            .arg(ends_at.as_millis())
            .arg(duration_millis(ttl))
            .arg(self.documented_value(user, username, now));
        let call = self.with_publish_args(
            call,
            conversation,
            &frame::encode_typing_frame(user, username, ends_at),
        );
        let () = call.run(&self.ctx.store().idempotent()).await?;
        permit.commit();
        Ok(())
    }

    /// Reports that a user stopped typing. Publishes nothing if the user was not typing.
    pub async fn stop(&self, conversation: &ConversationId, user: &UserId) -> Result<()> {
        let _reset = self
            .throttle
            .reset_now_and_on_drop(throttle_key(conversation, user));
        let call = self
            .script_call(&STOP_TYPING, conversation, user)
            .arg(self.ctx.now().as_millis());
        let ttl = self.ctx.keys().ttl(TtlName::Typing);
        let call = self
            .with_publish_args(call, conversation, &encode_stopped_frame(user))
            .arg(duration_millis(ttl));
        Ok(call.run(&self.ctx.store().idempotent()).await?)
    }

    /// Resets the throttle after the user has sent a message, so that the next start is written. The script that
    /// appends the message also clears the keys; where that script does not run, the sender's node calls
    /// [`stop`](Self::stop) instead.
    pub fn reset_throttle_after_message(&self, conversation: &ConversationId, user: &UserId) {
        self.throttle.reset(&throttle_key(conversation, user));
    }

    /// Lists the users who are typing in a conversation, ordered by id. The cost depends on the number of typing users
    /// only.
    pub async fn typing_users(&self, conversation: &ConversationId) -> Result<Vec<TypingUser>> {
        let keys = self.ctx.keys();
        let names = [
            keys.typing_index(conversation),
            keys.typing_names(conversation),
        ];
        let call = LIST_TYPING_USERS
            .keys(&names)
            .arg(self.ctx.now().as_millis());
        let entries: Vec<(UserId, u64, Option<String>)> =
            call.run(&self.ctx.store().idempotent()).await?;
        let user = |(user_id, ends_at, username)| TypingUser {
            user_id,
            username,
            until: Timestamp(ends_at),
        };
        let mut users: Vec<TypingUser> = entries.into_iter().map(user).collect();
        users.sort_unstable_by(|a, b| a.user_id.cmp(&b.user_id));
        Ok(users)
    }

    fn documented_value(&self, user: &UserId, username: &str, now: Timestamp) -> String {
        match self.ctx.keys().settings().layouts.typing {
            TypingLayout::Flag => "1".to_owned(),
            TypingLayout::Document => {
                let document = TypingDocument {
                    user_id: user,
                    username: if username.is_empty() {
                        user.as_str()
                    } else {
                        username
                    },
                    timestamp: now.as_millis(),
                };
                serde_json::to_string(&document).expect("texts and a number are JSON")
            }
        }
    }

    fn script_call(
        &self,
        script: &'static LuaScript,
        conversation: &ConversationId,
        user: &UserId,
    ) -> ScriptCall {
        let keys = self.ctx.keys();
        let names = [
            keys.typing_user(conversation, user),
            keys.typing_index(conversation),
            keys.typing_names(conversation),
        ];
        script.keys(&names).arg(user)
    }

    fn with_publish_args(
        &self,
        call: ScriptCall,
        conversation: &ConversationId,
        frame: &[u8],
    ) -> ScriptCall {
        call.arg(self.ctx.store().bus().publish_command())
            .arg(self.ctx.keys().conversation_channel(conversation))
            .arg(frame)
    }
}

/// Frame for a user who stopped typing, used by the script that appends the user's message.
pub(crate) fn encode_stopped_frame(user: &UserId) -> Vec<u8> {
    frame::encode_typing_frame(user, "", Timestamp(0))
}

fn throttle_key(conversation: &ConversationId, user: &UserId) -> (ConversationId, UserId) {
    (conversation.clone(), user.clone())
}

impl std::fmt::Debug for Typing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Typing")
    }
}
