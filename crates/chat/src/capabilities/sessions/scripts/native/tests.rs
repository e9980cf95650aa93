//! Compares the native versions with the scripts.

use parlor_store::{LuaScript, ManualClock, ScriptCall};
use redis::cmd;

use crate::script_parity::ScriptParity;

static READ: LuaScript =
    LuaScript::new("check", include_str!("../read_session.lua")).with_native(super::read_session);

static WRITE: LuaScript =
    LuaScript::new("write", include_str!("../write_session.lua")).with_native(super::write_session);

/// States of the session key.
fn session_states() -> Vec<Option<redis::Cmd>> {
    let hash = |fields: &[&str]| Some(cmd("HSET").arg("session").arg(fields).take());
    vec![
        None,
        Some(cmd("SET").arg("session").arg("x").take()),
        hash(&["name", "Ada", "active", "false"]),
        hash(&["device_id", ""]),
        hash(&["device_id", "d", "active", "true"]),
        hash(&["device_id", "d", "status", "blocked", "last_seen", "x"]),
        hash(&["device_id", "d", "active", "false", "other", "x"]),
        hash(&[
            "device_id",
            "d|e",
            "status",
            "login",
            "login_time",
            "5",
            "last_seen",
            "5",
        ]),
    ]
}

const CHECK_VALUES: [&str; 12] = [
    "",
    "10|1|",
    "10|2|",
    "30|1|",
    "x|1|",
    "10|1",
    "10|1||true||d",
    "10|1|5||login|d|e",
    "10|2|5||login|d|e",
    "0|1||false||d",
    "0|2|||blocked|d",
    "0|1|||login|blocked",
];

/// Runs a call on each state, with and without a TTL of the session key.
async fn assert_same_on_all_states(
    parity: &mut ScriptParity,
    script: &'static LuaScript,
    calls: impl Fn() -> Vec<ScriptCall>,
) {
    for session in &session_states() {
        for check_value in CHECK_VALUES {
            for ttl in [None, Some(300), Some(900)] {
                for (index, call) in calls().into_iter().enumerate() {
                    if let Some(session) = session {
                        parity.run_on_both(session).await;
                    }
                    if let Some(ttl) = ttl {
                        let expire = cmd("PEXPIRE").arg("session").arg(ttl).take();
                        parity.run_on_both(&expire).await;
                    }
                    if !check_value.is_empty() {
                        let set = cmd("SET").arg("check_key").arg(check_value).take();
                        parity.run_on_both(&set).await;
                    }
                    let what = format!("{session:?}, {check_value:?}, {ttl:?}, call {index}");
                    parity.assert_same(script, call, &what).await;
                    parity.run_on_both(&cmd("FLUSHALL")).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_session_is_written_as_the_script_writes_it() {
    let clock = ManualClock::default();
    let mut parity = ScriptParity::open(&clock).await;
    let calls = || {
        let fields = ["status", "login", "device_id", "e"];
        let mut calls: Vec<_> = ["9", "10", "20", "31"]
            .map(|issued| write_call("begin", issued, &fields))
            .into();
        for expected in ["", "|true||d", "||blocked|d", "|false||d", "5||login|d|e"] {
            calls.push(write_call("update", expected, &[]));
            calls.push(write_call("update", expected, &fields));
            calls.push(write_call("unblock", expected, &["active", "true"]));
            calls.push(write_call("delete", expected, &["status", "device_id"]));
        }
        calls
    };
    assert_same_on_all_states(&mut parity, &WRITE, calls).await;
    let call = write_call("update", "", &["odd"]);
    parity
        .assert_same(&WRITE, call, "a field without a value")
        .await;
}

fn write_call(mode: &str, expected: &str, fields: &[&str]) -> ScriptCall {
    let call = WRITE.keys(&["session", "check_key"]);
    let call = call.arg(1).arg(5).arg(500).arg(mode).arg(expected);
    let call = call.arg("10|1||true||d");
    fields.iter().fold(call, |call, field| call.arg(*field))
}

#[tokio::test]
async fn a_session_is_read_as_the_script_reads_it() {
    let clock = ManualClock::default();
    let mut parity = ScriptParity::open(&clock).await;
    let calls = || {
        let arguments = ["", "9", "10", "11"]
            .into_iter()
            .flat_map(|issued| ["", "77", "700"].map(|now| (issued, now)));
        let call = |(issued, now)| {
            let keys = ["session", "check_key"];
            READ.keys(&keys).arg(1).arg(issued).arg(now).arg(500)
        };
        arguments.map(call).collect()
    };
    assert_same_on_all_states(&mut parity, &READ, calls).await;
    parity
        .run_on_both(cmd("LPUSH").arg("check_key").arg("x"))
        .await;
    let call = calls().remove(0);
    parity
        .assert_same(&READ, call, "a check key of another type")
        .await;
}
