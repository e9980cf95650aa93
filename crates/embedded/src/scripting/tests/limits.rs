//! Permissions and limits of scripts, and the script cache.

use redis::Value as Resp;

use super::{Fixture, plain, strict};
use crate::commands::reply::{array, bulk};
use crate::scripting::script_cache::sha_of_source;
use crate::scripting::{MAX_EVAL_SCRIPTS, ScriptLimits};

#[test]
fn a_script_over_its_instruction_limit_is_stopped_and_its_writes_are_kept() {
    let mut fixture = Fixture::new(
        false,
        ScriptLimits {
            max_instructions: 200_000,
            ..ScriptLimits::default()
        },
    );
    for script in [
        "redis.call('INCR', 'n') while true do end",
        "redis.call('INCR', 'n') while true do pcall(function() while true do end end) end",
        "redis.call('INCR', 'n') while true do xpcall(function() while true do end end, function(e) return e end) end",
        "redis.call('INCR', 'n') local function f() while true do end end
         while true do coroutine.resume(coroutine.create(f)) end",
        "redis.call('INCR', 'n') coroutine.wrap(function() while true do end end)()",
        "redis.call('INCR', 'n') while true do redis.pcall('PING') end",
        "redis.call('INCR', 'n') load(function() while true do end end)",
    ] {
        let error = fixture.eval(script).expect_err("stopped");
        assert!(
            error.starts_with("ERR script stopped: it ran longer than 200000 instructions"),
            "{script}: {error}"
        );
    }
    assert_eq!(fixture.run(&["GET", "n"]), Ok(bulk("7")));
    assert_eq!(fixture.eval("return 1"), Ok(Resp::Int(1)));
}

#[test]
fn a_script_over_its_memory_limit_is_stopped_and_the_next_one_runs() {
    let mut fixture = Fixture::new(
        false,
        ScriptLimits {
            max_memory_bytes: 4 << 20,
            ..ScriptLimits::default()
        },
    );
    for script in [
        "redis.call('INCR', 'n') local s = 'x' while true do s = s .. s end",
        "redis.call('INCR', 'n') return #string.rep('x', 1e9)",
        "redis.call('INCR', 'n') local t = {} for i = 1, 1e9 do t[i] = {} end",
        "redis.call('INCR', 'n') redis.call('SET', 'big', string.rep('x', 1e6))
         local t = {} for i = 1, 100 do t[i] = redis.call('GET', 'big') .. i end",
    ] {
        let error = fixture.eval(script).expect_err("stopped");
        assert!(
            error.starts_with("ERR script stopped: it needs more than 4194304 bytes"),
            "{script}: {error}"
        );
    }
    assert_eq!(fixture.run(&["GET", "n"]), Ok(bulk("4")));
    assert_eq!(
        fixture.eval("return #string.rep('x', 1e6)"),
        Ok(Resp::Int(1_000_000))
    );
}

#[test]
fn read_only_scripts_cannot_write() {
    let mut fixture = plain();
    let refused = "ERR Write commands are not allowed from read-only scripts.";
    for call in ["'SET', 'k', 'v'", "'PUBLISH', 'c', 'm'", "'DEL', 'k'"] {
        let script = format!("return redis.pcall({call})");
        assert_eq!(fixture.run(&["EVAL_RO", &script, "0"]), Err(refused.into()));
    }
    assert_eq!(
        fixture.run(&["EVAL_RO", "return redis.call('GET', 'k')", "0"]),
        Ok(Resp::Nil)
    );
    let error = fixture
        .eval("#!lua flags=no-writes\nredis.call('SET', 'k', 'v')")
        .expect_err("rejected");
    assert!(
        error.starts_with(refused) && error.ends_with("on @user_script:2."),
        "{error}"
    );
    let error = fixture.run(&["EVAL_RO", "#!lua\nreturn 1", "0"]);
    assert_eq!(
        error,
        Err("ERR Can not execute a script with write flag using *_ro command.".into())
    );
}

#[test]
fn scripts_are_found_by_their_sha() {
    let mut fixture = plain();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let missing = Err("NOSCRIPT No matching script. Please use EVAL.".to_owned());
    assert_eq!(fixture.run(&["EVALSHA", sha, "0"]), missing);
    assert_eq!(fixture.run(&["EVALSHA", "short", "0"]), missing);
    assert_eq!(fixture.run(&["SCRIPT", "LOAD", "return 1"]), Ok(bulk(sha)));
    assert_eq!(fixture.run(&["EVALSHA", sha, "0"]), Ok(Resp::Int(1)));
    assert_eq!(
        fixture.run(&["EVALSHA", &sha.to_uppercase(), "0"]),
        Ok(Resp::Int(1))
    );
    assert_eq!(
        fixture.run(&["SCRIPT", "EXISTS", sha, "zz"]),
        Ok(array([Resp::Int(1), Resp::Int(0)]))
    );
    assert_eq!(fixture.run(&["SCRIPT", "FLUSH", "ASYNC"]), Ok(Resp::Okay));
    assert_eq!(fixture.run(&["EVALSHA", sha, "0"]), missing);
    assert_eq!(
        fixture.run(&["SCRIPT", "KILL"]),
        Err("NOTBUSY No scripts in execution right now.".into())
    );
    assert_eq!(
        fixture.run(&["SCRIPT", "NOPE"]),
        Err("ERR unknown subcommand 'NOPE'. Try SCRIPT HELP.".into())
    );
    assert_eq!(
        fixture.run(&["SCRIPT", "LOAD"]),
        Err("ERR wrong number of arguments for 'script|load' command".into())
    );
}

#[test]
fn loaded_scripts_stay_and_old_evaluated_ones_are_dropped() {
    let mut fixture = plain();
    let sha = |script: &str| sha_of_source(script.as_bytes()).to_string();
    fixture.eval("return 'kept'").expect("runs");
    fixture
        .run(&["SCRIPT", "LOAD", "return 'kept'"])
        .expect("loads");
    for n in 0..=MAX_EVAL_SCRIPTS {
        fixture.eval(&format!("return {n}")).expect("runs");
    }
    let exists = fixture.run(&[
        "SCRIPT",
        "EXISTS",
        &sha("return 'kept'"),
        &sha("return 0"),
        &sha("return 500"),
    ]);
    assert_eq!(
        exists,
        Ok(array([Resp::Int(1), Resp::Int(0), Resp::Int(1)]))
    );
}

#[test]
fn strict_mode_rejects_keys_that_are_not_declared() {
    let mut fixture = strict();
    let error = fixture.run(&[
        "EVAL",
        "redis.call('SET', KEYS[1], 1) redis.call('SET', 'b', 1)",
        "1",
        "a",
    ]);
    let error = error.expect_err("rejected");
    assert!(
        error.starts_with("ERR Script used key 'b' in SET, which is not among its KEYS"),
        "{error}"
    );
    let error = fixture
        .run(&["EVAL", "return 1", "2", "a", "b"])
        .expect_err("rejected");
    assert!(
        error.starts_with(
            "ERR Script declares keys of two hash slots: 'a' is in 15495 and 'b' in 3300"
        ),
        "{error}"
    );
    let both = [
        "EVAL",
        "return redis.call('DEL', KEYS[1], KEYS[2])",
        "2",
        "{t}a",
        "{t}b",
    ];
    assert_eq!(fixture.run(&both), Ok(Resp::Int(0)));
    let error = fixture
        .run(&["EVAL_RO", "return 1", "0"])
        .expect_err("rejected");
    assert!(error.contains("7.0.0"), "{error}");
    let error = plain().run(&[
        "EVAL",
        "redis.call('SET', 'b', 1) return redis.call('DEL', 'a', 'b')",
        "1",
        "a",
    ]);
    assert_eq!(error, Ok(Resp::Int(1)));
}

#[test]
fn the_number_of_loaded_scripts_is_limited() {
    let mut fixture = plain();
    let mut load = |n: usize| fixture.run(&["SCRIPT", "LOAD", &format!("return {n}")]);
    let loaded = (0..5_000).take_while(|&n| load(n).is_ok()).count();
    assert_eq!(loaded, 2_000);
    assert_eq!(load(0).map(|_| ()), Ok(()));
    let texts = |count| {
        format!(
            "local t = {{}} for i = 1, {count} do t[i] = 'x' .. i end return redis.call('DEL', unpack(t))"
        )
    };
    assert_eq!(fixture.eval(&texts(5_000)), Ok(Resp::Int(0)));
    fixture
        .eval(&texts(7_900))
        .expect_err("no slots are left for that many");
    assert_eq!(fixture.eval(&texts(5_000)), Ok(Resp::Int(0)));
}

#[test]
fn a_sparse_reply_table_ends_at_the_first_nil() {
    // Lua looks for the end of a table at these indexes, up to 335 million, and finds them occupied.
    let holes = "local t = {1, 2, 3, 4} for k = 26, 0, -1 do t[5 * 2^k] = 5 end return t";
    let Ok(Resp::Array(items)) = plain().eval(holes) else {
        panic!("no array");
    };
    assert_eq!(items, [1, 2, 3, 4, 5].map(Resp::Int));
    assert!(items.capacity() < 10_000);
}

#[test]
fn strict_mode_rejects_scripts_that_look_at_every_key() {
    for command in [
        "'KEYS', '*'",
        "'SCAN', 0",
        "'RANDOMKEY'",
        "'DBSIZE'",
        "'FLUSHALL'",
    ] {
        let script = format!("return redis.call({command})");
        let error = strict().eval(&script).expect_err("rejected");
        assert!(
            error.contains("strict mode requires every key in KEYS"),
            "{error}"
        );
        assert!(plain().eval(&script).is_ok());
    }
}

#[test]
fn garbage_of_one_script_does_not_count_against_the_next() {
    let mut fixture = Fixture::new(
        false,
        ScriptLimits {
            max_memory_bytes: 4 << 20,
            ..ScriptLimits::default()
        },
    );
    for _ in 0..20 {
        assert_eq!(
            fixture.eval("return #string.rep('x', 1000000)"),
            Ok(Resp::Int(1_000_000))
        );
    }
}
