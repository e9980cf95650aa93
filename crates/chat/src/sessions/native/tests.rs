//! The step in Rust against the script.

use parlor_store::{ManualClock, Script};
use redis::cmd;

use crate::twins::Twins;

static CHECK: Script = Script::new("check", include_str!("../check.lua")).native(super::check);

#[tokio::test]
async fn the_step_in_rust_does_what_the_script_does() {
    let clock = ManualClock::default();
    let mut twins = Twins::open(&clock).await;
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
                        twins.both(session).await;
                    }
                    if !companion.is_empty() {
                        twins.both(cmd("SET").arg("companion").arg(companion)).await;
                    }
                    let keys = ["session", "companion"];
                    let call = CHECK.keys(&keys).arg(1).arg(issued).arg(now).arg(500);
                    let what = format!("{session:?}, {companion:?}, {issued:?}, {now:?}");
                    twins.same(&CHECK, call, &what).await;
                    twins.both(&cmd("FLUSHALL")).await;
                }
            }
        }
    }
    twins.both(cmd("LPUSH").arg("companion").arg("x")).await;
    let call = CHECK
        .keys(&["session", "companion"])
        .arg(1)
        .arg("")
        .arg("")
        .arg(500);
    twins.same(&CHECK, call, "somebody else's").await;
}
