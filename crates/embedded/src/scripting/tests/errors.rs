//! Errors of scripts, and the limits of the sandbox.

use redis::Value as Resp;

use super::{error, plain, text};
use crate::commands::reply::bulk;

#[test]
fn errors_name_script_and_line() {
    let mut fixture = plain();
    fixture.run(&["RPUSH", "l", "x"]).expect("a list");
    for (script, error) in [
        (
            "return x",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: 03c387736bb5cc009ff35151572cee04677aa374, on @user_script:1.",
        ),
        (
            "x=1",
            "ERR user_script:1: Attempt to modify a readonly table script: 7caf6056913504f0508c65faf2dc3f94ff65bcfd, on @user_script:1.",
        ),
        (
            "return redis.call(\"get\",\"l\")",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: 1d1d374902c9bf4d03df8a7d7a6e43bd9027e71c, on @user_script:1.",
        ),
        (
            "error(\"abc\")",
            "ERR user_script:1: abc script: 54110b09c745af35ea85822de262247e9999d72b, on @user_script:1.",
        ),
        (
            "error({err=\"MY thing\"})",
            "MY thing script: 7eaf611ad4edb07c334530292b7d93622dd8f8da, on @user_script:1.",
        ),
        (
            "\n\nerror(\"x\",0)",
            "ERR x script: e43705a41ef7c8af29940e1c3c6fb0110ce366f3, on @user_script:3.",
        ),
        (
            "local function f() return 1+f() end f()",
            "ERR user_script:1: stack overflow script: 5538953f541a4fd3a19547eade1c4a8567aa53b2, on @user_script:1.",
        ),
        (
            "foo bar",
            "ERR Error compiling script (new function): user_script:1: '=' expected near 'bar'",
        ),
    ] {
        assert_eq!(fixture.eval(script), Err(error.into()), "{script}");
    }
}

#[test]
fn wrong_calls_are_rejected() {
    for (script, expected) in [
        (
            "redis.call()",
            "ERR Please specify at least one argument for this redis lib call",
        ),
        (
            "redis.call('GET', {})",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "redis.call('NOPE')",
            "ERR Unknown Redis command called from script",
        ),
        (
            "redis.call('GET')",
            "ERR Wrong number of args calling Redis command from script",
        ),
        (
            "redis.call('EVAL', 'return 1', 0)",
            "ERR This Redis command is not allowed from script",
        ),
        (
            "redis.call('MULTI')",
            "ERR This Redis command is not allowed from script",
        ),
        (
            "redis.call('SUBSCRIBE', 'c')",
            "ERR This Redis command is not allowed from script",
        ),
        ("redis.setresp(1)", "ERR RESP version must be 2 or 3."),
        ("redis.log(9, 'x')", "ERR Invalid debug level."),
        ("redis.sha1hex()", "ERR wrong number of arguments"),
        ("error({1})", "ERR the script raised a table without err"),
    ] {
        assert_eq!(error(script), expected, "{script}");
    }
}

#[test]
fn pcall_gives_texts_and_redis_pcall_gives_tables() {
    assert_eq!(
        text("local ok, e = pcall(redis.call, 'GET') return type(e) .. e"),
        "stringERR Wrong number of args calling Redis command from script"
    );
    assert_eq!(
        text("return redis.pcall('NOPE').err"),
        "ERR Unknown Redis command called from script"
    );
    assert_eq!(
        text(
            "local ok, e = xpcall(function() redis.call('GET') end, function(e) return type(e) end) return e"
        ),
        "table"
    );
    assert_eq!(
        text("local ok, e = pcall(function() return cjson.decode('x') end) return e"),
        "user_script:1: Expected value but found invalid token at character 1"
    );
    let script = "local co = coroutine.create(function() redis.call('GET') end)
        local ok, e = coroutine.resume(co) return type(e) .. e.err";
    assert_eq!(
        text(script),
        "tableERR Wrong number of args calling Redis command from script"
    );
}

#[test]
fn a_script_leaves_nothing_behind() {
    let mut fixture = plain();
    for script in [
        "rawset(_G, 'x', 1)",
        "KEYS = 1",
        "redis = nil",
        "string.rep = nil",
        "getmetatable('').__index = nil",
        "setmetatable(_G, nil)",
        "setmetatable(string, nil)",
        "loadstring('x = 1')()",
    ] {
        let error = fixture.eval(script).expect_err(script);
        assert!(
            error.contains("Attempt to modify a readonly table"),
            "{script}: {error}"
        );
    }
    assert_eq!(
        fixture.eval("return ('x'):rep(2) .. type(redis.call)"),
        Ok(bulk("xxfunction"))
    );
}

#[test]
fn unsafe_globals_are_not_available() {
    for name in [
        "os", "io", "debug", "require", "package", "dofile", "loadfile", "print", "setfenv",
        "getfenv", "newproxy",
    ] {
        let expected = format!(
            "ERR user_script:1: Script attempted to access nonexistent global variable '{name}'"
        );
        assert_eq!(error(&format!("return {name}")), expected);
    }
    assert_eq!(
        text("local f, e = loadstring(string.dump(function() end)) return type(f)"),
        "nil"
    );
}

#[test]
fn loaded_code_runs_in_the_sandbox() {
    assert_eq!(
        plain().eval("return loadstring('return 1 + 1')()"),
        Ok(Resp::Int(2))
    );
    assert_eq!(
        text("local f, e = loadstring('return return') return e"),
        "[string \"return return\"]:1: unexpected symbol near 'return'"
    );
    assert_eq!(
        plain().eval(
            "local n = 0 return load(function() n = n + 1 return ({'return ', '7'})[n] end)()"
        ),
        Ok(Resp::Int(7))
    );
}
