//! Checks of section 3: fixed and sliding windows, which both sides count in.

use serde_json::{Value, json};

use crate::documents::side_by_side::SideBySide;
use crate::http::client::call;
use crate::tokens::service;

/// Window of all limits of this file: 15 minutes.
const WINDOW_MS: u64 = 900_000;

/// Asks Parlor whether one more request fits.
async fn check(run: &SideBySide, algorithm: &str, id: &str, limit: u64) -> Value {
    let body = json!({ "key": id, "algorithm": algorithm, "limit": limit, "windowMs": WINDOW_MS });
    let check = call("POST", "/v1/limits/check").by(&service());
    check.json(body).at(&run.node).await.ok()
}

/// Type, TTL, scores and members of a key that Parlor has written.
async fn assert_window(run: &SideBySide, key: &str, count: usize) {
    assert_eq!(run.old.run(&format!("TYPE {key}")).await, "zset");
    let left = run.old.run(&format!("TTL {key}")).await;
    assert!(
        (880..=900).contains(&left.as_i64().unwrap()),
        "{key}: {left}"
    );
    let entries = run.old.run(&format!("ZRANGE {key} 0 -1 WITHSCORES")).await;
    let entries = entries.as_array().unwrap();
    assert_eq!(
        entries.len(),
        2 * count,
        "each request is a member: {entries:?}"
    );
    for entry in entries.chunks(2) {
        let (member, score) = (entry[0].as_str().unwrap(), entry[1].as_str().unwrap());
        assert_eq!(score.len(), "1700000000000".len(), "milliseconds: {score}");
        assert!(member.starts_with(&score[..6]), "{member} {score}");
    }
}

/// Both sides count in one fixed window.
pub(super) async fn fixed_windows_are_shared(run: &SideBySide) {
    for id in ["192.168.1.100", "user:123"] {
        for _ in 0..2 {
            assert_eq!(check(run, "fixed", id, 4).await["allowed"], true);
        }
        assert_window(run, &format!("ha:rate_limit:{id}"), 2).await;
        let old = async || run.old.call("fixedWindow", json!([id, 4, WINDOW_MS])).await;
        assert_eq!(old().await, true);
        assert_eq!(check(run, "fixed", id, 4).await["remaining"], 0);
        assert_eq!(old().await, false);
        assert_eq!(check(run, "fixed", id, 4).await["allowed"], false);
        assert_eq!(run.old.run(&format!("ZCARD ha:rate_limit:{id}")).await, 4);
    }
}

/// The window that the old service has begun keeps its end, and a finished one does not count.
pub(super) async fn fixed_windows_of_the_old_service_go_on(run: &SideBySide) {
    run.old
        .call("fixedWindow", json!(["begun", 2, 600_000]))
        .await;
    assert_eq!(check(run, "fixed", "begun", 2).await["remaining"], 0);
    let left = run.old.run("TTL ha:rate_limit:begun").await;
    assert!((580..=600).contains(&left.as_i64().unwrap()), "{left}");
    run.old
        .run(r#"ZADD ha:rate_limit:finished 1672531800000 "1672531800000""#)
        .await;
    assert_eq!(check(run, "fixed", "finished", 1).await["allowed"], true);
    assert_window(run, "ha:rate_limit:finished", 1).await;
}

/// Both sides count in one sliding window, in which members are unique.
pub(super) async fn sliding_windows_are_shared(run: &SideBySide) {
    let id = "192.168.1.101";
    let old = async || {
        run.old
            .call("slidingWindow", json!([id, 4, WINDOW_MS]))
            .await
    };
    for _ in 0..2 {
        assert_eq!(check(run, "sliding", id, 4).await["allowed"], true);
    }
    assert_window(run, &format!("ha:sliding_limit:{id}"), 2).await;
    assert_eq!((old().await, old().await), (json!(true), json!(true)));
    assert_eq!(check(run, "sliding", id, 4).await["allowed"], false);
    assert_eq!(old().await, false);
}

/// Requests outside of the window are removed, as the document does with ZREMRANGEBYSCORE.
pub(super) async fn old_requests_leave_the_sliding_window(run: &SideBySide) {
    run.old
        .run("ZADD ha:sliding_limit:past 1672531800000 1672531800000-a")
        .await;
    assert_eq!(check(run, "sliding", "past", 1).await["allowed"], true);
    assert_window(run, "ha:sliding_limit:past", 1).await;
}

/// Both keys of an address expire with their window.
pub(super) async fn windows_expire(run: &SideBySide) {
    for key in [
        "ha:rate_limit:192.168.1.100",
        "ha:sliding_limit:192.168.1.101",
    ] {
        let left = run.old.run(&format!("TTL {key}")).await;
        assert!((1..=900).contains(&left.as_i64().unwrap()), "{key}: {left}");
    }
}
