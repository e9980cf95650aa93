//! Strict mode, and consistency of the command table.

use super::*;
use crate::engine::state::EngineState;
use crate::pubsub::PubSubRegistry;
use crate::scripting::ScriptEngine;

fn reply(strict: bool, args: &[&str]) -> CommandResult {
    let mut state = EngineState {
        db: Db::new(strict, PubSubRegistry::default()),
        scripts: ScriptEngine::new(),
    };
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    state.execute(&args)
}

fn is_too_new(args: &[&str]) -> bool {
    let says_so =
        |reply: CommandResult| reply.is_err_and(|e| e.text().contains("strict mode allows 6.2"));
    assert!(!says_so(reply(false, args)), "{args:?}");
    says_so(reply(true, args))
}

#[test]
fn strict_mode_rejects_exactly_the_commands_newer_than_6_2() {
    for command in COMMAND_TABLE {
        let mut args = vec![command.name];
        args.resize(command.arity.unsigned_abs(), "1");
        let newer = is_newer_than_6_2(command.since);
        if matches!(command.handler, CommandHandler::Connection) {
            assert!(reply(true, &args).is_err(), "{}", command.name);
        } else {
            assert_eq!(is_too_new(&args), newer, "{}", command.name);
        }
    }
}

#[test]
fn strict_mode_rejects_options_newer_than_6_2() {
    for newer in [
        "EXPIRE k 1 NX",
        "PEXPIRE k 1 XX",
        "EXPIREAT k 1 GT",
        "PEXPIREAT k 1 LT",
        "SET k v NX GET",
        "SET k v GET NX",
        "PUBSUB SHARDCHANNELS",
        "PUBSUB SHARDNUMSUB c",
        "INFO server keyspace",
    ] {
        let args: Vec<_> = newer.split(' ').collect();
        assert!(is_too_new(&args), "{newer}");
    }
    assert!(is_too_new(&["EVAL", "#!lua\nreturn 1", "0"]));
    for older in [
        "EXPIRE k 1",
        "SET k v XX GET",
        "SET k v NX EX 1",
        "ZADD z GT CH 1 m",
        "LPOS l x RANK 1 COUNT 0 MAXLEN 9",
        "LPOP l 2",
        "ZRANGE z 0 1 BYSCORE REV LIMIT 0 1",
        "GETEX k PERSIST",
        "SCAN 0 TYPE hash",
        "FLUSHALL ASYNC",
        "SCRIPT FLUSH SYNC",
        "INFO server",
    ] {
        let args: Vec<_> = older.split(' ').collect();
        assert!(!is_too_new(&args), "{older}");
    }
}

#[test]
fn every_name_is_found_and_every_version_is_valid() {
    for command in COMMAND_TABLE {
        let found = find_command(command.name.to_lowercase().as_bytes()).map(|found| found.name);
        assert_eq!(found, Some(command.name));
        let parts = command.since.split('.').map(str::parse::<u32>);
        assert_eq!(parts.filter(Result::is_ok).count(), 3, "{}", command.name);
    }
}
