//! Compares the native versions with the scripts.

use parlor_store::{LuaScript, ManualClock, ScriptCall};
use redis::cmd;

use crate::script_parity::ScriptParity;

static CHECK: LuaScript = LuaScript::new("check", include_str!("../scripts/read_session.lua"))
    .with_native(super::read_session);

static WRITE: LuaScript = LuaScript::new("write", include_str!("../scripts/write_session.lua"))
    .with_native(super::write_session);

#[tokio::test]
async fn a_session_is_written_as_the_script_writes_it() {
    let clock = ManualClock::default();
    let mut twins = ScriptParity::open(&clock).await;
    let sessions = [
        None,
        Some(cmd("SET").arg("session").arg("x").take()),
        Some(session_of(&["status", "login", "device_id", "d"])),
        Some(session_of(&["status", "blocked", "device_id", "d"])),
        Some(session_of(&["active", "false", "other", "x"])),
    ];
    let fields: [&[&str]; 3] = [&[], &["status", "login", "device_id", "e"], &["odd"]];
    for session in &sessions {
        for companion in ["", "10|1", "10|2", "30|1", "x|1", "10|"] {
            for (mode, issued) in [("open", 20), ("open", 10), ("rebuild", 0), ("set", 0)] {
                for (keep, fields) in [("0", fields[1]), ("1", fields[1]), ("1", fields[0])] {
                    if let Some(session) = session {
                        twins.run_on_both(session).await;
                    }
                    if !companion.is_empty() {
                        twins
                            .run_on_both(cmd("SET").arg("companion").arg(companion))
                            .await;
                    }
                    let call = written(mode, issued, keep, fields);
                    let what = format!("{session:?}, {companion:?}, {mode}, {keep}, {fields:?}");
                    twins.assert_same(&WRITE, call, &what).await;
                    twins.run_on_both(&cmd("FLUSHALL")).await;
                }
            }
        }
    }
    let call = written("set", 0, "0", fields[2]);
    twins
        .assert_same(&WRITE, call, "a field without a value")
        .await;
}

fn session_of(fields: &[&str]) -> redis::Cmd {
    cmd("HSET").arg("session").arg(fields).take()
}

fn written(mode: &str, issued: u64, keep: &str, fields: &[&str]) -> ScriptCall {
    let call = WRITE.keys(&["session", "companion"]);
    let call = call.arg(1).arg(5).arg(500).arg(mode).arg(issued).arg(keep);
    fields.iter().fold(call, |call, field| call.arg(*field))
}

#[tokio::test]
async fn the_step_in_rust_does_what_the_script_does() {
    let clock = ManualClock::default();
    let mut twins = ScriptParity::open(&clock).await;
    let sessions = [
        None,
        Some(cmd("SET").arg("session").arg("x").take()),
        Some(cmd("HSET").arg("session").arg("other").arg("x").take()),
        Some(cmd("HSET").arg("session").arg("active").arg("1").take()),
        Some(
            cmd("HSET")
                .arg("session")
                .arg(&["status", "login", "device_id", "d", "last_seen", "5"])
                .take(),
        ),
    ];
    let companions = ["", "10|1", "10|2", "0|1", "x|1", "10|1|", "10|"];
    for session in &sessions {
        for companion in companions {
            for issued in ["", "9", "10", "11"] {
                for now in ["", "77"] {
                    if let Some(session) = session {
                        twins.run_on_both(session).await;
                    }
                    if !companion.is_empty() {
                        twins
                            .run_on_both(cmd("SET").arg("companion").arg(companion))
                            .await;
                    }
                    let keys = ["session", "companion"];
                    let call = CHECK.keys(&keys).arg(1).arg(issued).arg(now).arg(500);
                    let what = format!("{session:?}, {companion:?}, {issued:?}, {now:?}");
                    twins.assert_same(&CHECK, call, &what).await;
                    twins.run_on_both(&cmd("FLUSHALL")).await;
                }
            }
        }
    }
    twins
        .run_on_both(cmd("LPUSH").arg("companion").arg("x"))
        .await;
    let call = CHECK
        .keys(&["session", "companion"])
        .arg(1)
        .arg("")
        .arg("")
        .arg(500);
    twins
        .assert_same(&CHECK, call, "a check key of another type")
        .await;
}
