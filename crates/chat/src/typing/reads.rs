//! Asking the store who types.

use parlor_store::{Script, script};
use redis::pipe;

use super::ops::Typer;
use crate::context::{Context, Moment};
use crate::error::Result;
use crate::ids::{ConversationId, UserId};

static TYPERS: Script = script!("typers.lua");

/// Who types in each of these conversations, by user id, in one round trip.
pub(super) async fn read(
    ctx: &Context,
    conversations: impl IntoIterator<Item = &ConversationId>,
) -> Result<Vec<Vec<Typer>>> {
    let keys = ctx.keys();
    let now = ctx.now().ms();
    let mut pipe = pipe();
    for conversation in conversations {
        let names = [keys.typers(conversation), keys.typer_names(conversation)];
        pipe.add_command(TYPERS.keys(&names).arg(now).cmd());
    }
    let mut store = ctx.store().repeatable();
    let replies: Vec<Vec<(UserId, u64, Option<String>)>> = pipe.query_async(&mut store).await?;
    let typer = |(user_id, until, username)| Typer {
        user_id,
        username,
        until: Moment(until),
    };
    let typers = replies.into_iter().map(|reply| {
        let mut typers: Vec<Typer> = reply.into_iter().map(typer).collect();
        typers.sort_unstable_by(|a, b| a.user_id.cmp(&b.user_id));
        typers
    });
    Ok(typers.collect())
}
