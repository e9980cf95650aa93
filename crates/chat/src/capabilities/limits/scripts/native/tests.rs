//! Compares the native script with the Lua script.

use std::time::Duration;

use parlor_store::ManualClock;
use redis::cmd;

use crate::limits::COUNT_MESSAGE;
use crate::script_parity::ScriptParity;

#[tokio::test]
async fn the_native_script_does_what_the_lua_script_does() {
    let clock = ManualClock::default();
    let mut parity = ScriptParity::open(&clock).await;
    let values = [
        "",
        "0",
        "1",
        "2",
        "3",
        "7",
        "-2",
        "x",
        "1.5",
        "9223372036854775807",
    ];
    for value in values {
        for ttl in [None, Some(1), Some(50)] {
            for limit in [0, 1, 3, u32::MAX] {
                let mut set = cmd("SET");
                set.arg("key").arg(value);
                if let Some(ttl) = ttl {
                    set.arg("PX").arg(ttl);
                }
                if !value.is_empty() {
                    parity.run_on_both(&set).await;
                }
                for wait in [0, 1, 1, 49] {
                    clock.advance(Duration::from_millis(wait));
                    let call = COUNT_MESSAGE.keys("key").arg(limit).arg(50);
                    let what = format!("{value:?}, {ttl:?}, {limit}, {wait}");
                    parity.assert_same(&COUNT_MESSAGE, call, &what).await;
                }
                parity.run_on_both(&cmd("FLUSHALL")).await;
            }
        }
    }
    parity.run_on_both(cmd("LPUSH").arg("key").arg("x")).await;
    let call = COUNT_MESSAGE.keys("key").arg(1).arg(50);
    parity
        .assert_same(&COUNT_MESSAGE, call, "foreign type")
        .await;
}
