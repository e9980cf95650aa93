//! Publishing. Subscribing belongs to a connection; see [`crate::Subscriber`].

use crate::args::{Args, is, lossy};
use crate::db::Db;
use crate::error::{Error, Reply};
use crate::reply::{array, bulk, bulks, count};

pub fn publish(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(count(db.hub.publish(args[1], args[2])))
}

pub fn spublish(db: &mut Db, args: Args<'_>) -> Reply {
    Ok(count(db.hub.publish_sharded(args[1], args[2])))
}

pub fn pubsub(db: &mut Db, args: Args<'_>) -> Reply {
    let what = args[1];
    let sharded = is(what, "SHARDCHANNELS") || is(what, "SHARDNUMSUB");
    if sharded {
        db.needs("7.0.0", "PUBSUB SHARDCHANNELS and SHARDNUMSUB")?;
    }
    match args.get(2..).unwrap_or_default() {
        pattern @ ([] | [_]) if is(what, "CHANNELS") || is(what, "SHARDCHANNELS") => {
            Ok(bulks(db.hub.channels(pattern.first().copied(), sharded)))
        }
        channels if is(what, "NUMSUB") || is(what, "SHARDNUMSUB") => {
            let one =
                |channel: &&[u8]| [bulk(*channel), count(db.hub.subscribers(channel, sharded))];
            Ok(array(channels.iter().flat_map(one)))
        }
        [] if is(what, "NUMPAT") => Ok(count(db.hub.patterns())),
        _ if is(what, "NUMPAT") => Err(Error::wrong_arity("pubsub|numpat")),
        _ if is(what, "CHANNELS") || is(what, "SHARDCHANNELS") => Err(Error::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try PUBSUB HELP.",
            lossy(what)
        ))),
        _ => Err(Error::new(format!(
            "ERR unknown subcommand '{}'. Try PUBSUB HELP.",
            lossy(what)
        ))),
    }
}
