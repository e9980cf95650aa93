//! Libraries that are not part of Lua.

use redis::Value as Resp;

use super::{error, plain, text};
use crate::commands::reply::{array, bulk, bulk_array};

#[test]
fn random_numbers_are_those_of_redis() {
    let script = "math.random() return {math.random(10), math.random(1000), math.random(5, 6), math.random(1e9)}";
    let reply = array([9, 354, 5, 318_692_773].map(Resp::Int));
    assert_eq!(plain().eval(script), Ok(reply));
    assert_eq!(
        text("math.randomseed(5) return tostring(math.random())"),
        "0.52483957937213"
    );
}

#[test]
fn bits_are_those_of_luabitop() {
    for (script, reply) in [
        ("bit.band(0xff, 0x0f)", 15),
        ("bit.bor(1, 2, 4)", 7),
        ("bit.bnot(0)", -1),
        ("bit.lshift(1, 31)", -2_147_483_648),
        ("bit.lshift(1, 32)", 1),
        ("bit.rshift(-1, 28)", 15),
        ("bit.arshift(-8, 1)", -4),
        ("bit.tobit(0xffffffff)", -1),
        ("bit.tobit(2.5)", 2),
        ("bit.bswap(0x12345678)", 2_018_915_346),
    ] {
        assert_eq!(
            plain().eval(&format!("return {script}")),
            Ok(Resp::Int(reply)),
            "{script}"
        );
    }
    assert_eq!(
        plain().eval("return {bit.tohex(255), bit.tohex(255, -4)}"),
        Ok(bulk_array(["000000ff", "00FF"]))
    );
    assert_eq!(
        error("bit.band({})"),
        "ERR user_script:1: bad argument #1 to 'band' (number expected, got table)"
    );
}

#[test]
fn json_is_written_as_by_lua_cjson() {
    for (value, json) in [
        ("{}", "{}"),
        ("{1, 2, {}}", "[1,2,{}]"),
        ("{a = 1.5}", r#"{"a":1.5}"#),
        ("{1, nil, 3}", "[1,null,3]"),
        ("{[1.5] = true}", r#"{"1.5":true}"#),
        ("{cjson.null, false}", "[null,false]"),
        (r#"'a/b"c\\\n\1'"#, r#""a\/b\"c\\\n\u0001""#),
        (
            "{0.1, 1e15, 99999999999999, -0.5}",
            "[0.1,1e+15,99999999999999,-0.5]",
        ),
    ] {
        assert_eq!(
            text(&format!("return cjson.encode({value})")),
            json,
            "{value}"
        );
    }
    for (value, complaint) in [
        (
            "{[1] = 1, [30] = 1}",
            "Cannot serialise table: excessively sparse array",
        ),
        (
            "function() end",
            "Cannot serialise function: type not supported",
        ),
        ("0/0", "Cannot serialise number: must not be NaN or Inf"),
        ("", "bad argument #1 to 'encode' (expected 1 argument)"),
    ] {
        assert_eq!(
            error(&format!("return cjson.encode({value})")),
            format!("ERR user_script:1: {complaint}")
        );
    }
}

#[test]
fn json_is_read_as_by_lua_cjson() {
    for (json, again) in [
        (r#"{"a":[1,{"b":null}]}"#, r#"{"a":[1,{"b":null}]}"#),
        ("[ ]", "{}"),
        (r#""\ud83d\ude00\u00e9\/""#, "\"😀é\\/\""),
        ("[1e3,0x10,-2.50]", "[1000,16,-2.5]"),
    ] {
        let script = "return cjson.encode(cjson.decode(ARGV[1]))";
        assert_eq!(
            plain().run(&["EVAL", script, "0", json]),
            Ok(bulk(again)),
            "{json}"
        );
    }
    for (json, complaint) in [
        ("", "Expected value but found T_END at character 1"),
        ("[1,]", "Expected value but found T_ARR_END at character 4"),
        (
            "[1 2]",
            "Expected comma or array end but found T_NUMBER at character 4",
        ),
        (
            "{1:2}",
            "Expected object key string but found T_NUMBER at character 2",
        ),
        (
            r#"{"a" 1}"#,
            "Expected colon but found T_NUMBER at character 6",
        ),
        (
            r#"{"a":1"#,
            "Expected comma or object end but found T_END at character 7",
        ),
        ("1 2", "Expected the end but found T_NUMBER at character 3"),
        (
            r#""\q""#,
            "Expected value but found invalid escape code at character 2",
        ),
        (
            "tru",
            "Expected value but found invalid token at character 1",
        ),
    ] {
        let reply = plain().run(&["EVAL", "return cjson.decode(ARGV[1])", "0", json]);
        let error = reply.expect_err("rejected");
        assert!(
            error.starts_with(&format!("ERR user_script:1: {complaint} script: ")),
            "{json}: {error}"
        );
    }
}

#[test]
fn json_nests_a_thousand_deep_and_no_deeper() {
    let script = "local n = tonumber(ARGV[1]) local t = cjson.decode(('['):rep(n) .. (']'):rep(n)) return #cjson.encode(t)";
    assert_eq!(
        plain().run(&["EVAL", script, "0", "1000"]),
        Ok(Resp::Int(2_000))
    );
    let error = plain()
        .run(&["EVAL", script, "0", "1001"])
        .expect_err("rejected");
    assert!(
        error.contains("Found too many nested data structures (1001)"),
        "{error}"
    );
    let error = plain()
        .eval("local t = {} for i = 1, 1000 do t = {t} end return cjson.encode(t)")
        .expect_err("rejected");
    assert!(
        error.contains("Cannot serialise, excessive nesting (1001)"),
        "{error}"
    );
}
