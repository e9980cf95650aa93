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
    let all_sections = args.len() == 1
        || args[1..].iter().any(|s| {
            ["all", "default", "everything"]
                .iter()
                .any(|n| is_option(s, n))
        });
    let text: String = info_sections(db)
        .into_iter()
        .filter(|(name, _)| {
            all_sections || args[1..].iter().any(|section| is_option(section, name))
        })
        .map(|(name, lines)| {
            let lines: String = lines
                .iter()
                .map(|(key, value)| format!("{key}:{value}\r\n"))
                .collect();
            format!("# {name}\r\n{lines}\r\n")
        })
        .collect();
    Ok(bulk(
        text.trim_end_matches("\r\n").to_owned() + if text.is_empty() { "" } else { "\r\n" },
    ))
}

type InfoSection = (&'static str, Vec<(&'static str, String)>);

fn info_sections(db: &Db) -> Vec<InfoSection> {
    let keys = db.dict();
    let server = vec![
        // The Redis version whose behaviour the engine has. Clients choose their commands by it.
        ("redis_version", "7.0.15".to_owned()),
        ("redis_mode", "standalone".to_owned()),
        ("server_name", "parlor-embedded".to_owned()),
        ("run_id", db.run_id.clone()),
        ("process_id", std::process::id().to_string()),
    ];
    let replication = vec![
        ("role", "master".to_owned()),
        ("connected_slaves", "0".to_owned()),
    ];
    let keyspace = match keys.len() {
        0 => Vec::new(),
        len => vec![(
            "db0",
            format!("keys={len},expires={},avg_ttl=0", keys.expires_len()),
        )],
    };
    vec![
        ("Server", server),
        ("Replication", replication),
        ("Keyspace", keyspace),
    ]
}
