//! Conversion of arguments and replies.

use redis::Value as Resp;

use super::{plain, text};
use crate::commands::reply::{array, bulk};

#[test]
fn values_become_replies_as_in_redis() {
    for (script, reply) in [
        ("return 3.99", Resp::Int(3)),
        ("return -3.99", Resp::Int(-3)),
        ("return 1e30", Resp::Int(i64::MIN)),
        ("return 0/0", Resp::Int(i64::MIN)),
        ("return 'x'", bulk("x")),
        ("return true", Resp::Int(1)),
        ("return false", Resp::Nil),
        ("return", Resp::Nil),
        ("return cjson.null", Resp::Nil),
        ("return function() end", Resp::Nil),
        (
            "return {1, 'a', false, {2}, nil, 3}",
            array([Resp::Int(1), bulk("a"), Resp::Nil, array([Resp::Int(2)])]),
        ),
        ("return {}", array([])),
        ("return {ok = 'fine'}", Resp::SimpleString("fine".into())),
        ("return redis.status_reply('OK')", Resp::Okay),
        ("return {ok = 1}", array([])),
        ("return {double = 3.1}", bulk("3.1000000000000001")),
        ("return {map = {a = 1}}", array([bulk("a"), Resp::Int(1)])),
        ("return {set = {a = true}}", array([bulk("a")])),
        ("return {big_number = '12'}", bulk("12")),
    ] {
        assert_eq!(plain().eval(script), Ok(reply), "{script}");
    }
}

#[test]
fn error_replies_keep_their_code() {
    for (script, error) in [
        ("return redis.error_reply('ABC def')", "ABC def"),
        ("return redis.error_reply('-ABC def')", "ABC def"),
        ("return redis.error_reply('abc')", "ERR abc"),
        (
            "return redis.error_reply()",
            "ERR wrong number or type of arguments",
        ),
        ("return {err = 'x y'}", "x y"),
        ("return {err = 'a\\nb'}", "a b"),
    ] {
        assert_eq!(plain().eval(script), Err(error.into()), "{script}");
    }
}

#[test]
fn replies_become_values_as_in_redis() {
    let mut fixture = plain();
    let script = "
        local t = redis.call('SET', 'k', 'v')
        return {t.ok, redis.call('GET', 'k'), type(redis.call('GET', 'none')), redis.call('INCR', 'n') + 1,
                #redis.call('MGET', 'k', 'none', 'n')}";
    let reply = array([
        bulk("OK"),
        bulk("v"),
        bulk("boolean"),
        Resp::Int(2),
        Resp::Int(3),
    ]);
    assert_eq!(fixture.eval(script), Ok(reply));
    assert_eq!(fixture.run(&["GET", "k"]), Ok(bulk("v")));
}

#[test]
fn numbers_as_arguments_are_printed_as_in_c() {
    for (number, printed) in [
        ("1", "1"),
        ("-7", "-7"),
        ("0.1", "0.10000000000000001"),
        ("1e17", "1e+17"),
        ("99999999999999984", "99999999999999984"),
        ("123456789012345678", "1.2345678901234568e+17"),
        ("-0", "-0"),
        ("0/0", "-nan"),
        ("1/0", "inf"),
    ] {
        assert_eq!(
            text(&format!(
                "redis.call('SET', 'k', {number}) return redis.call('GET', 'k')"
            )),
            printed
        );
    }
}

#[test]
fn keys_and_arguments_are_tables() {
    let args = [
        "EVAL",
        "KEYS[1] = KEYS[1] .. '!' return {#KEYS, #ARGV, KEYS[1], ARGV[2]}",
        "1",
        "k",
        "a",
        "b",
    ];
    let reply = array([Resp::Int(1), Resp::Int(2), bulk("k!"), bulk("b")]);
    assert_eq!(plain().run(&args), Ok(reply));
    let count = 20_000;
    let script = format!("return #ARGV == {count} and ARGV[{count}]");
    let mut args = vec!["EVAL", &script, "0"];
    args.resize(3 + count, "x");
    assert_eq!(plain().run(&args), Ok(bulk("x")));
}

#[test]
fn the_number_of_keys_is_checked() {
    let mut fixture = plain();
    let mut failing = |count| {
        fixture
            .run(&["EVAL", "return 1", count, "a"])
            .expect_err("rejected")
    };
    assert_eq!(failing("x"), "ERR value is not an integer or out of range");
    assert_eq!(failing("-1"), "ERR Number of keys can't be negative");
    assert_eq!(
        failing("2"),
        "ERR Number of keys can't be greater than number of args"
    );
}

#[test]
fn a_self_referencing_reply_table_terminates() {
    let reply = plain().eval("local t = {} t[1] = t return t");
    assert!(matches!(reply, Ok(Resp::Array(_))), "{reply:?}");
}

#[test]
fn calls_take_thousands_of_arguments() {
    let mut fixture = plain();
    let script = "local t = {} for i = 1, tonumber(ARGV[1]) do t[i] = i end return redis.call('RPUSH', 'l', unpack(t))";
    assert_eq!(
        fixture.run(&["EVAL", script, "0", "7000"]),
        Ok(Resp::Int(7_000))
    );
    assert_eq!(
        fixture.eval("return #redis.call('LRANGE', 'l', 0, -1)"),
        Ok(Resp::Int(7_000))
    );
    fixture
        .run(&["EVAL", script, "0", "9000"])
        .expect_err("Lua cannot unpack that many");
    assert_eq!(fixture.run(&["LLEN", "l"]), Ok(Resp::Int(7_000)));
    let texts =
        "local t = {} for i = 1, 7900 do t[i] = 'x' .. i end return redis.call('DEL', unpack(t))";
    assert_eq!(fixture.eval(texts), Ok(Resp::Int(0)));
}
