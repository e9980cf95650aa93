//! Calling the step script: one step in one conversation for many users, in one round trip.

mod field;
mod native;

use parlor_store::Script;
use redis::{Cmd, pipe};

use super::rows::Position;
use crate::bus::frame::{self, Kind};
use crate::context::Context;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

static STEPS: Script = Script::new(
    "unread steps",
    concat!(include_str!("field.lua"), include_str!("steps.lua")),
)
.native(native::steps);

/// How long a state is kept after its last change.
pub(super) const KEEP_MS: u64 = 30 * 86_400 * 1_000;
/// Users in one call: more would keep everybody else waiting.
const IN_CALL: usize = 32;
/// Users in one pipeline.
const IN_PIPELINE: usize = 1_024;

/// What happened to a user in a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Somebody else sent a message.
    Sent { members_version: u64, seq: u64 },
    /// The user themself sent one, and others may have sent some after it.
    Wrote {
        joined_version: u64,
        position_version: u64,
        seq: u64,
        top: u64,
    },
    /// They came, read, marked unread or muted.
    Placed {
        joined_version: u64,
        position_version: u64,
        top: u64,
        badge: u64,
        own: u64,
        muted_until: u64,
    },
    /// They are no member any more.
    Left { members_version: u64 },
}

impl From<&Position> for Step {
    fn from(position: &Position) -> Self {
        Self::Placed {
            joined_version: position.joined_version,
            position_version: position.position_version,
            top: position.last_seq,
            badge: position.badge_seq,
            own: position.own_after,
            muted_until: position.muted_until,
        }
    }
}

impl Step {
    fn add_to(self, cmd: &mut Cmd) {
        let (what, numbers, muted) = match self {
            Self::Sent {
                members_version,
                seq,
            } => ("sent", [members_version, 0, seq, 0, 0], None),
            Self::Left { members_version } => ("left", [members_version, 0, 0, 0, 0], None),
            Self::Wrote {
                joined_version,
                position_version,
                seq,
                top,
            } => (
                "placed",
                [joined_version, position_version, top, seq, 0],
                None,
            ),
            Self::Placed {
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
        cmd.arg(what).arg(&numbers[..]);
        match muted {
            Some(until) => cmd.arg(until),
            None => cmd.arg(""),
        };
    }
}

/// Applies steps in a conversation; those whose state has to be held against the rows first.
pub(super) async fn run<'u>(
    ctx: &Context,
    conversation: &ConversationId,
    steps: &[(&'u UserId, Step)],
) -> Result<Vec<&'u UserId>> {
    let in_call = if ctx.keys().cluster() { 1 } else { IN_CALL };
    let mut cold = Vec::new();
    for steps in steps.chunks(IN_PIPELINE) {
        let mut pipe = pipe();
        for steps in steps.chunks(in_call) {
            pipe.add_command(call(ctx, conversation, steps));
        }
        let mut store = ctx.store().repeatable();
        let replies: Vec<Vec<i64>> = pipe.query_async(&mut store).await?;
        let done = replies.into_iter().flatten().map(|reply| reply == 1);
        let those = steps.iter().zip(done).filter(|(_, done)| !done);
        cold.extend(those.map(|((user, _), _)| *user));
    }
    Ok(cold)
}

fn call(ctx: &Context, conversation: &ConversationId, steps: &[(&UserId, Step)]) -> Cmd {
    let keys = ctx.keys();
    let names = steps.iter().flat_map(|(user, _)| {
        [
            keys.unread_state(user),
            keys.unread(user, conversation),
            keys.unread_total(user),
        ]
    });
    let mut cmd = STEPS
        .keys(names.collect::<Vec<_>>())
        .arg(ctx.now().ms())
        .arg(ctx.store().current_epoch())
        .arg(KEEP_MS)
        .arg(ctx.store().bus().publish_command())
        .arg(&frame::head(Kind::Unread, 0)[..])
        .arg(conversation)
        .cmd();
    for (user, step) in steps {
        cmd.arg(keys.user_bus(user));
        step.add_to(&mut cmd);
    }
    cmd
}

#[cfg(test)]
mod tests;
