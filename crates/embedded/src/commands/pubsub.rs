//! `PUBLISH`, `SPUBLISH` and `PUBSUB`. Callers in the process subscribe with [`crate::EmbeddedSubscriber`].

use crate::args::{Args, is_option, to_error_text};
use crate::db::Db;
use crate::error::{CommandError, CommandResult};
use crate::reply::{array, bulk, bulk_array, count};

pub fn publish(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(count(db.pubsub.publish(args[1], args[2])))
}

pub fn spublish(db: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(count(db.pubsub.publish_sharded(args[1], args[2])))
}

pub fn pubsub(db: &mut Db, args: Args<'_>) -> CommandResult {
    let what = args[1];
    let sharded = is_option(what, "SHARDCHANNELS") || is_option(what, "SHARDNUMSUB");
    if sharded {
        db.require_redis_version("7.0.0", "PUBSUB SHARDCHANNELS and SHARDNUMSUB")?;
    }
    match args.get(2..).unwrap_or_default() {
        pattern @ ([] | [_]) if is_option(what, "CHANNELS") || is_option(what, "SHARDCHANNELS") => {
            Ok(bulk_array(
                db.pubsub.channels(pattern.first().copied(), sharded),
            ))
        }
        channels if is_option(what, "NUMSUB") || is_option(what, "SHARDNUMSUB") => {
            let one = |channel: &&[u8]| {
                [
                    bulk(*channel),
                    count(db.pubsub.count_subscribers(channel, sharded)),
                ]
            };
            Ok(array(channels.iter().flat_map(one)))
        }
        [] if is_option(what, "NUMPAT") => Ok(count(db.pubsub.count_patterns())),
        _ if is_option(what, "NUMPAT") => Err(CommandError::wrong_arity("pubsub|numpat")),
        _ if is_option(what, "CHANNELS") || is_option(what, "SHARDCHANNELS") => {
            Err(CommandError::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
                to_error_text(what)
            )))
        }
        _ => Err(CommandError::new(format!(
            "ERR unknown subcommand '{}'. Try PUBSUB HELP.",
            to_error_text(what)
        ))),
    }
}
