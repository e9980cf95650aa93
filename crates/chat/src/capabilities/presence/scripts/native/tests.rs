//! Compares the native scripts with the Lua scripts, in every layout.

use std::time::Duration;

use parlor_store::{LuaScript, ManualClock};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::cmd;

use crate::keys::PresenceLayout;
use crate::presence::layouts::{PresenceScripts, scripts_for};
use crate::script_parity::ScriptParity;

const KEYS: [&str; 4] = ["state", "lastseen", "layout", "layout2"];
const TTL: u64 = 60;

/// A script call for `user`, with the arguments of `PresenceScriptArgs`.
fn call(script: &'static LuaScript, now: u64) -> parlor_store::ScriptCall {
    script
        .keys(&KEYS)
        .arg("user")
        .arg(now)
        .arg(format!("iso {now}"))
        .arg(TTL)
        .arg(500)
        .arg("online")
        .arg("offline")
        .arg("watch")
        .arg("external")
}

/// Puts unexpected values into the keys.
async fn write_unexpected_values(parity: &ScriptParity, rng: &mut StdRng) {
    let command = match rng.random_range(0..40) {
        0 => cmd("SET").arg("layout").arg("x").take(),
        1 => cmd("HSET").arg("layout").arg("d9").arg("x").take(),
        2 => cmd("HSET").arg("state").arg("d:d9").arg("x").take(),
        3 => cmd("HSET").arg("state").arg("g:d0").arg(1).take(),
        4 => cmd("DEL").arg("layout").take(),
        5 => cmd("HSET").arg("state").arg("x").arg("busy").take(),
        6 => cmd("HSET").arg("state").arg("v").arg("x").take(),
        7 => cmd("RPUSH").arg("lastseen").arg("x").take(),
        8 => cmd("DEL").arg("lastseen").take(),
        _ => return,
    };
    parity.try_on_both(&command).await;
}

/// Runs one random script call.
async fn step(
    parity: &mut ScriptParity,
    scripts: &'static PresenceScripts,
    rng: &mut StdRng,
    what: &str,
) {
    let now = parity.store().clock().now_ms();
    let id = ["d0", "d0", "d0", "d1"][rng.random_range(0..4)];
    let node = ["node", "node", "node", "other"][rng.random_range(0..4)];
    let boot_id = ["e", "e", "e", "api"][rng.random_range(0..4)];
    let since = now - rng.random_range(0..20);
    let (script, call) = match rng.random_range(0..10) {
        0..4 => {
            let again = rng.random_bool(0.2);
            let call = call(&scripts.connect, now)
                .arg(id)
                .arg(node)
                .arg(boot_id)
                .arg("then")
                .arg(["", "\"info\""][rng.random_range(0..2)])
                .arg(["", "", "restore"][rng.random_range(0..3)])
                .arg(["", "", "visible"][rng.random_range(0..3)])
                .arg(if again {
                    since.to_string()
                } else {
                    String::new()
                })
                .arg(2)
                .arg(["d0", "phone"][rng.random_range(0..2)]);
            (&scripts.connect, call)
        }
        4..8 => {
            let call = call(&scripts.beat, now)
                .arg(id)
                .arg(node)
                .arg(boot_id)
                .arg(since)
                .arg("d0");
            (&scripts.beat, call)
        }
        8 => {
            let call = call(&scripts.remove, now)
                .arg(id)
                .arg(boot_id)
                .arg("")
                .arg("");
            (&scripts.remove, call)
        }
        _ => {
            let status = ["online", "offline", "busy"][rng.random_range(0..3)];
            (
                &scripts.set_status,
                call(&scripts.set_status, now).arg(status),
            )
        }
    };
    parity.assert_same(script, call, what).await;
}

#[tokio::test]
async fn native_presence_scripts_match_the_lua_scripts() {
    let clock = ManualClock::default();
    let mut parity = ScriptParity::open(&clock).await;
    for chosen in [
        PresenceLayout::Devices,
        PresenceLayout::Document,
        PresenceLayout::Sockets,
        PresenceLayout::Status,
    ] {
        let scripts = scripts_for(chosen);
        for seed in 0..120 {
            let rng = &mut StdRng::seed_from_u64(seed);
            for nth in 0..12 {
                write_unexpected_values(&parity, rng).await;
                let what = format!("{chosen:?}, seed {seed}, step {nth}");
                step(&mut parity, scripts, rng, &what).await;
                // Sometimes long enough for the state's TTL to be renewed.
                let hours = u64::from(rng.random_bool(0.05));
                clock.advance(Duration::from_secs(hours * 3_600));
                clock.advance(Duration::from_millis(rng.random_range(0..40)));
            }
            parity.run_on_both(&cmd("FLUSHALL")).await;
        }
    }
}
