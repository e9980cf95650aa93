//! Commands about the server: `PING`, `ECHO`, `SELECT`, `TIME` and `INFO`.

use redis::Value;

use crate::commands::args::{Args, is_option};
use crate::commands::reply::{OK, array, bulk};
use crate::db::Db;
use crate::error::{CommandError, CommandResult};
use crate::numbers::parse_int_arg;

pub fn ping(_: &mut Db, args: Args<'_>) -> CommandResult {
    match args {
        [_] => Ok(Value::SimpleString("PONG".to_owned())),
        [_, message] => Ok(bulk(*message)),
        _ => Err(CommandError::wrong_arity("ping")),
    }
}

pub fn echo(_: &mut Db, args: Args<'_>) -> CommandResult {
    Ok(bulk(args[1]))
}

pub fn select(_: &mut Db, args: Args<'_>) -> CommandResult {
    match parse_int_arg(args[1]) {
        Ok(0) => Ok(OK),
        Ok(_) => Err(CommandError::from_static("ERR DB index is out of range")),
        Err(_) => Err(CommandError::from_static("ERR invalid DB index")),
    }
}

pub fn time(db: &mut Db, _: Args<'_>) -> CommandResult {
    let (seconds, micros) = (db.now() / 1_000, db.now() % 1_000 * 1_000);
    Ok(array([bulk(seconds.to_string()), bulk(micros.to_string())]))
}

pub fn info(db: &mut Db, args: Args<'_>) -> CommandResult {
    if args.len() > 2 {
        db.require_redis_version("7.0.0", "INFO with several sections")?;
    }
    // The Redis version whose behaviour the engine has. Clients choose their commands by it.
    let server = format!(
        "redis_version:7.0.15\r\nredis_mode:standalone\r\nserver_name:parlor-embedded\r\nrun_id:{}\r\nprocess_id:{}\r\n",
        db.run_id,
        std::process::id()
    );
    let keyspace = match (db.dict().len(), db.dict().expires_len()) {
        (0, _) => String::new(),
        (keys, expires) => format!("db0:keys={keys},expires={expires},avg_ttl=0\r\n"),
    };
    let sections = [
        ("Server", &*server),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n"),
        ("Keyspace", &*keyspace),
    ];
    let names = |name| args[1..].iter().any(|section| is_option(section, name));
    let all = args.len() == 1 || ["all", "default", "everything"].into_iter().any(names);
    let wanted = sections.iter().filter(|(name, _)| all || names(name));
    let text: Vec<_> = wanted
        .map(|(name, lines)| format!("# {name}\r\n{lines}"))
        .collect();
    Ok(bulk(text.join("\r\n")))
}
