//! Reads the typing users from the store.

use parlor_store::{LuaScript, script};
use redis::pipe;

use super::model::TypingUser;
use crate::api::error::Result;
use crate::context::{ChatContext, Timestamp};
use crate::ids::{ConversationId, UserId};

static LIST_TYPING_USERS: LuaScript = script!("scripts/list_typing_users.lua");

/// Reads the typing users of each conversation, ordered by id, in one round trip.
pub(super) async fn read_typing_users(
    ctx: &ChatContext,
    conversations: impl IntoIterator<Item = &ConversationId>,
) -> Result<Vec<Vec<TypingUser>>> {
    let keys = ctx.keys();
    let now = ctx.now().as_millis();
    let mut pipe = pipe();
    for conversation in conversations {
        let names = [keys.typers(conversation), keys.typer_names(conversation)];
        pipe.add_command(LIST_TYPING_USERS.keys(&names).arg(now).cmd());
    }
    let mut store = ctx.store().idempotent();
    let replies: Vec<Vec<(UserId, u64, Option<String>)>> = pipe.query_async(&mut store).await?;
    let typer = |(user_id, until, username)| TypingUser {
        user_id,
        username,
        until: Timestamp(until),
    };
    let typers = replies.into_iter().map(|reply| {
        let mut typers: Vec<TypingUser> = reply.into_iter().map(typer).collect();
        typers.sort_unstable_by(|a, b| a.user_id.cmp(&b.user_id));
        typers
    });
    Ok(typers.collect())
}
