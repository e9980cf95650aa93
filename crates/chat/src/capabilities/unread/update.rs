//! Counter updates: one update per user in one conversation, for many users in one round trip.

mod field;
mod native;

use parlor_store::{LuaScript, ScriptCall};
use redis::pipe;

use super::rows::MemberPosition;
use crate::api::error::Result;
use crate::bus::frame::{self, BusFrameKind};
use crate::context::ChatContext;
use crate::ids::{ConversationId, UserId};

static UPDATE_COUNTERS: LuaScript = LuaScript::new(
    "unread steps",
    concat!(
        include_str!("scripts/counter_field.lua"),
        include_str!("scripts/update_counters.lua")
    ),
)
.with_native(native::update_counters);

/// TTL of a user's unread state, counted from its last change.
pub(super) const UNREAD_STATE_TTL_MS: u64 = 30 * 86_400 * 1_000;
/// Maximum number of users per script call, because a running script blocks all other clients of the store.
const MAX_USERS_PER_CALL: usize = 32;
/// Maximum number of users per pipeline.
const MAX_USERS_PER_PIPELINE: usize = 1_024;

/// One update of a user's counter in a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) enum CounterUpdate {
    /// Another member sent a message.
    MessageByOther { members_version: u64, seq: u64 },
    /// The user sent a message; other members may have sent later ones, up to `last_seq`.
    MessageByUser {
        joined_version: u64,
        position_version: u64,
        seq: u64,
        top: u64,
    },
    /// The user joined, read, marked as unread or muted: the row has this position.
    Position {
        joined_version: u64,
        position_version: u64,
        top: u64,
        badge: u64,
        own: u64,
        muted_until: u64,
    },
    /// The user is no member any more.
    Left { members_version: u64 },
}

impl From<&MemberPosition> for CounterUpdate {
    fn from(position: &MemberPosition) -> Self {
        Self::Position {
            joined_version: position.joined_version,
            position_version: position.position_version,
            top: position.last_seq,
            badge: position.badge_seq,
            own: position.own_after,
            muted_until: position.muted_until,
        }
    }
}

impl CounterUpdate {
    fn append_args(self, call: ScriptCall) -> ScriptCall {
        let (what, numbers, muted) = match self {
            Self::MessageByOther {
                members_version,
                seq,
            } => ("sent", [members_version, 0, seq, 0, 0], None),
            Self::Left { members_version } => ("left", [members_version, 0, 0, 0, 0], None),
            Self::MessageByUser {
                joined_version,
                position_version,
                seq,
                top,
            } => (
                "placed",
                [joined_version, position_version, top, seq, 0],
                None,
            ),
            Self::Position {
                joined_version,
                position_version,
                top,
                badge,
                own,
                muted_until,
            } => {
                let numbers = [joined_version, position_version, top, badge, own];
                ("placed", numbers, Some(muted_until))
            }
        };
        let call = call.arg(what).arg(&numbers[..]);
        match muted {
            Some(until) => call.arg(until),
            None => call.arg(""),
        }
    }
}

/// Runs updates in a conversation. Returns the users whose state must be reconciled with the rows first.
pub(super) async fn run_updates<'u>(
    ctx: &ChatContext,
    conversation: &ConversationId,
    steps: &[(&'u UserId, CounterUpdate)],
) -> Result<Vec<&'u UserId>> {
    let in_call = if ctx.keys().cluster() {
        1
    } else {
        MAX_USERS_PER_CALL
    };
    let mut cold = Vec::new();
    for steps in steps.chunks(MAX_USERS_PER_PIPELINE) {
        let mut pipe = pipe();
        for steps in steps.chunks(in_call) {
            pipe.add_command(update_call(ctx, conversation, steps).cmd());
        }
        let mut store = ctx.store().idempotent();
        let replies: Vec<Vec<i64>> = pipe.query_async(&mut store).await?;
        let done = replies.into_iter().flatten().map(|reply| reply == 1);
        let those = steps.iter().zip(done).filter(|(_, done)| !done);
        cold.extend(those.map(|((user, _), _)| *user));
    }
    Ok(cold)
}

fn update_call(
    ctx: &ChatContext,
    conversation: &ConversationId,
    steps: &[(&UserId, CounterUpdate)],
) -> ScriptCall {
    let keys = ctx.keys();
    let names = steps.iter().flat_map(|(user, _)| {
        [
            keys.unread_state(user),
            keys.unread(user, conversation),
            keys.unread_total(user),
        ]
    });
    let mut call = UPDATE_COUNTERS
        .keys(names.collect::<Vec<_>>())
        .arg(ctx.now().as_millis())
        .arg(ctx.store().current_epoch())
        .arg(UNREAD_STATE_TTL_MS)
        .arg(ctx.store().bus().publish_command())
        .arg(&frame::start_frame(BusFrameKind::UnreadChanged, 0)[..])
        .arg(conversation);
    for (user, step) in steps {
        call = step.append_args(call.arg(keys.user_channel(user)));
    }
    call
}

#[cfg(test)]
mod tests;
