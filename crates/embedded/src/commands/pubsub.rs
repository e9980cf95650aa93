//! `PUBLISH`, `SPUBLISH` and `PUBSUB`. Callers in the process subscribe with [`crate::EmbeddedSubscriber`].

use crate::commands::args::{Args, is_option, to_error_text};
use crate::commands::reply::{array, bulk, bulk_array, integer};
use crate::db::Db;
use crate::error::{CommandError, CommandResult};
use crate::pubsub::SubscriptionKind;

/// `PUBLISH`, or `SPUBLISH` for a shard channel.
pub fn publish(db: &mut Db, args: Args<'_>, kind: SubscriptionKind) -> CommandResult {
    Ok(integer(db.pubsub.publish(kind, args[1], args[2])))
}

pub fn pubsub(db: &mut Db, args: Args<'_>) -> CommandResult {
    let subcommand = args[1];
    let is = |name| is_option(subcommand, name);
    let kind = match is("SHARDCHANNELS") || is("SHARDNUMSUB") {
        true => SubscriptionKind::Shard,
        false => SubscriptionKind::Channel,
    };
    if kind == SubscriptionKind::Shard {
        db.require_redis_version("7.0.0", "PUBSUB SHARDCHANNELS and SHARDNUMSUB")?;
    }
    match args.get(2..).unwrap_or_default() {
        pattern @ ([] | [_]) if is("CHANNELS") || is("SHARDCHANNELS") => Ok(bulk_array(
            db.pubsub.list_channels(pattern.first().copied(), kind),
        )),
        channels if is("NUMSUB") || is("SHARDNUMSUB") => {
            let one = |channel: &&[u8]| {
                [
                    bulk(*channel),
                    integer(db.pubsub.count_subscribers(channel, kind)),
                ]
            };
            Ok(array(channels.iter().flat_map(one)))
        }
        [] if is("NUMPAT") => Ok(integer(db.pubsub.count_patterns())),
        _ if is("NUMPAT") => Err(CommandError::wrong_arity("pubsub|numpat")),
        _ if is("CHANNELS") || is("SHARDCHANNELS") => Err(CommandError::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
            to_error_text(subcommand)
        ))),
        _ => Err(CommandError::new(format!(
            "ERR unknown subcommand '{}'. Try PUBSUB HELP.",
            to_error_text(subcommand)
        ))),
    }
}
