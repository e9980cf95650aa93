//! Compares the native versions with the scripts.

use parlor_store::{LuaScript, ManualClock, ScriptCall};
use redis::cmd;

use crate::script_parity::ScriptParity;

static READ: LuaScript = LuaScript::new("check", include_str!("../scripts/read_session.lua"))
    .with_native(super::read_session);

static WRITE: LuaScript = LuaScript::new("write", include_str!("../scripts/write_session.lua"))
    .with_native(super::write_session);

#[tokio::test]
async fn a_session_is_written_as_the_script_writes_it() {
    let clock = ManualClock::default();
    let mut parity = ScriptParity::open(&clock).await;
    let sessions = [
        None,
        Some(cmd("SET").arg("session").arg("x").take()),
        Some(session_of(&["status", "login", "device_id", "d"])),
        Some(session_of(&["status", "blocked", "device_id", "d"])),
        Some(session_of(&["active", "false", "other", "x"])),
    ];
    let fields: [&[&str]; 3] = [&[], &["status", "login", "device_id", "e"], &["odd"]];
    for session in &sessions {
        for check_key in ["", "10|1", "10|2", "30|1", "x|1", "10|"] {
            for (mode, issued) in [
                ("begin", 20),
                ("begin", 10),
                ("rebuild", 0),
                ("overwrite", 0),
            ] {
                for (keep, fields) in [("0", fields[1]), ("1", fields[1]), ("1", fields[0])] {
                    if let Some(session) = session {
                        parity.run_on_both(session).await;
                    }
                    if !check_key.is_empty() {
                        parity
                            .run_on_both(cmd("SET").arg("check_key").arg(check_key))
                            .await;
                    }
                    let call = write_call(mode, issued, keep, fields);
                    let what = format!("{session:?}, {check_key:?}, {mode}, {keep}, {fields:?}");
                    parity.assert_same(&WRITE, call, &what).await;
                    parity.run_on_both(&cmd("FLUSHALL")).await;
                }
            }
        }
    }
    let call = write_call("overwrite", 0, "0", fields[2]);
    parity
        .assert_same(&WRITE, call, "a field without a value")
        .await;
}

fn session_of(fields: &[&str]) -> redis::Cmd {
    cmd("HSET").arg("session").arg(fields).take()
}

fn write_call(mode: &str, issued: u64, keep: &str, fields: &[&str]) -> ScriptCall {
    let call = WRITE.keys(&["session", "check_key"]);
    let call = call.arg(1).arg(5).arg(500).arg(mode).arg(issued).arg(keep);
    fields.iter().fold(call, |call, field| call.arg(*field))
}

#[tokio::test]
async fn a_session_is_read_as_the_script_reads_it() {
    let clock = ManualClock::default();
    let mut parity = ScriptParity::open(&clock).await;
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
    let check_keys = ["", "10|1", "10|2", "0|1", "x|1", "10|1|", "10|"];
    for session in &sessions {
        for check_key in check_keys {
            for issued in ["", "9", "10", "11"] {
                for now in ["", "77"] {
                    if let Some(session) = session {
                        parity.run_on_both(session).await;
                    }
                    if !check_key.is_empty() {
                        parity
                            .run_on_both(cmd("SET").arg("check_key").arg(check_key))
                            .await;
                    }
                    let keys = ["session", "check_key"];
                    let call = READ.keys(&keys).arg(1).arg(issued).arg(now).arg(500);
                    let what = format!("{session:?}, {check_key:?}, {issued:?}, {now:?}");
                    parity.assert_same(&READ, call, &what).await;
                    parity.run_on_both(&cmd("FLUSHALL")).await;
                }
            }
        }
    }
    parity
        .run_on_both(cmd("LPUSH").arg("check_key").arg("x"))
        .await;
    let call = READ
        .keys(&["session", "check_key"])
        .arg(1)
        .arg("")
        .arg("")
        .arg(500);
    parity
        .assert_same(&READ, call, "a check key of another type")
        .await;
}
