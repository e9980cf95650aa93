//! S4, the schema of a home-assistant backend: sessions, rate limits, message cache, statistics, support desk.

mod limits;
mod messages;
mod users;

use serde_json::json;

use super::monitor::{ChangeKind, TakeoverRule};
use super::old_service::OldService;
use super::sessions;
use super::side_by_side::{SchemaDocument, SideBySide};
use super::table::{TableRow, assert_complete, checked, not_a_key, planned, run_checks};

const DOCUMENT: SchemaDocument = SchemaDocument {
    preset: "home-assistant",
    program: "home_assistant.mjs",
    rules: RULES,
};

/// Milliseconds after which a request of the tests' limits does not count any more.
const WINDOW_MS: f64 = 900_000.0;

/// Changes of Parlor to keys that the old service wrote.
const RULES: &[TakeoverRule] = &[
    sessions::renewal_rule("ha:user:*"),
    sessions::logout_rule("ha:user:*"),
    TakeoverRule {
        key: "ha:chat:conversation:*:messages",
        kind: ChangeKind::Delete,
        reason: "Parlor has the messages of the conversation in rows, and fills the list from them",
        allows: |change, keyspace| {
            let conversation = change.key.split(':').nth(3).unwrap_or_default();
            let watermark = format!("ha:parlor:top:{conversation}");
            keyspace.value(&watermark, "").is_some()
        },
    },
    TakeoverRule {
        key: "ha:rate_limit:*",
        kind: ChangeKind::Delete,
        reason: "all requests are outside of the window",
        allows: |change, _| {
            change
                .old
                .split(' ')
                .all(|score| is_outside(score, change.at))
        },
    },
    TakeoverRule {
        key: "ha:rate_limit:*",
        kind: ChangeKind::Expire,
        reason: "the key gets the TTL of the document, which the other service has not set yet",
        allows: |change, _| change.old == "TTL None",
    },
    TakeoverRule {
        key: "ha:sliding_limit:*",
        kind: ChangeKind::Remove,
        reason: "the request is outside of the window",
        allows: |change, _| is_outside(&change.old, change.at),
    },
];

fn is_outside(score: &str, now: f64) -> bool {
    score
        .parse::<f64>()
        .is_ok_and(|score| score <= now * 1_000.0 - WINDOW_MS)
}

const LINE_COUNT: u32 = 378;

#[rustfmt::skip]
const TABLE: &[TableRow] = &[
    not_a_key(1, 10, "title and overview"),
    checked(11, 15, "every key begins with `ha:`", |run| Box::pin(messages::keys_and_channels_have_the_prefix(run))),
    not_a_key(16, 19, "head of the summary"),
    planned(20, 21, "open and most open HTTP connections", "statistics"),
    planned(22, 25, "accepted and all requests, requests per second", "statistics"),
    planned(26, 26, "requests per endpoint", "statistics"),
    planned(27, 28, "errors, and errors per endpoint", "statistics"),
    checked(29, 29, "`ha:rate_limit:{id}` is a sorted set for the window", |run| Box::pin(limits::fixed_windows_are_shared(run))),
    checked(30, 30, "`ha:sliding_limit:{id}` is a sorted set for the window", |run| Box::pin(limits::sliding_windows_are_shared(run))),
    checked(31, 31, "`ha:user:{user}` is a hash for 7 d", |run| Box::pin(users::sessions_have_the_fields_of_the_document(run))),
    planned(32, 33, "presence and assignments of an admin", "desk"),
    planned(34, 35, "queues of active and unread conversations", "desk"),
    checked(36, 36, "`ha:chat:conversation:{id}:messages` is a list for 1 h", |run| Box::pin(messages::recent_messages_are_listed(run))),
    planned(37, 37, "dashboard of an admin", "desk"),
    not_a_key(38, 40, "headings"),
    planned(41, 51, "meaning of connections and accepted requests", "statistics"),
    planned(52, 64, "meaning of total and speeds", "statistics"),
    planned(65, 77, "meaning of requests per endpoint, with examples", "statistics"),
    planned(78, 99, "meaning of errors, in all and per endpoint", "statistics"),
    checked(100, 114, "fixed window: timestamps as scores, the TTL is the window, ids are addresses or `user:123`", |run| Box::pin(limits::fixed_windows_of_the_old_service_go_on(run))),
    checked(115, 128, "sliding window: unique members", |run| Box::pin(limits::old_requests_leave_the_sliding_window(run))),
    checked(129, 147, "fields of a session, each written by HSET", |run| Box::pin(users::a_login_of_the_old_service_is_valid_in_parlor(run))),
    checked(148, 153, "a session expires after 7 d, requests renew it, a delete ends it", |run| Box::pin(users::requests_renew_and_a_delete_ends_the_session(run))),
    checked(154, 157, "`login`, `anonymous` and `blocked`", |run| Box::pin(users::the_status_controls_access(run))),
    checked(158, 160, "a block takes effect at once and stays", |run| Box::pin(users::blocks_of_parlor_are_lifted_only_in_parlor(run))),
    planned(161, 174, "presence of an admin: values, TTL, SET and GET", "desk"),
    planned(175, 188, "assignments: SADD, SCARD, SISMEMBER, SREM", "desk"),
    planned(189, 200, "active queue: ZADD and ZREVRANGE", "desk"),
    planned(201, 210, "unread queue: weights, ZADD and ZREVRANGE", "desk"),
    checked(211, 223, "message cache: LPUSH, LTRIM and LRANGE", |run| Box::pin(messages::lists_of_the_old_service_stay(run))),
    planned(224, 241, "dashboard: fields, HSET, HGET and HGETALL", "desk"),
    not_a_key(242, 252, "types of the keys above, again"),
    not_a_key(253, 256, "head of the TTLs"),
    checked(257, 258, "rate limits live as long as their window", |run| Box::pin(limits::windows_expire(run))),
    checked(259, 259, "sessions live for 604800 s", |run| Box::pin(users::sessions_expire(run))),
    planned(260, 262, "TTLs of admins and queues", "desk"),
    checked(263, 263, "message caches live for 3600 s", |run| Box::pin(messages::lists_expire(run))),
    planned(264, 264, "TTL of the dashboard", "desk"),
    planned(265, 266, "counters have no TTL", "statistics"),
    not_a_key(267, 270, "colons and lower case"),
    planned(271, 271, "method and path of an endpoint, with a space or an underscore", "statistics"),
    not_a_key(272, 272, "times are milliseconds, as checked above"),
    checked(273, 274, "the prefix is configurable", |run| Box::pin(messages::the_prefix_is_configurable(run))),
    not_a_key(275, 281, "advice on memory"),
    checked(282, 291, "commands in use", |run| Box::pin(messages::commands_of_the_document_run(run))),
    not_a_key(292, 293, "heading"),
    checked(294, 304, "login: HSET of a session without `status`, EXPIRE", |run| Box::pin(users::sessions_of_both_sides_are_one(run))),
    checked(305, 313, "each request: HGETALL, then `device_id` and `active`", |run| Box::pin(users::sessions_are_validated_by_the_old_service(run))),
    checked(314, 319, "then MULTI with HSET `last_seen` and EXPIRE", |run| Box::pin(users::requests_at_the_old_service_renew_the_session(run))),
    checked(320, 322, "HSET `active` `false` blocks at once", |run| Box::pin(users::the_old_service_disables_users_of_parlor(run))),
    checked(323, 325, "DEL logs out", |run| Box::pin(users::the_old_service_logs_users_of_parlor_out(run))),
    planned(326, 329, "INCRBY of requests", "statistics"),
    planned(330, 341, "SET of the presence, MULTI with SADD, ZADD and EXPIRE of an assignment", "desk"),
    planned(342, 345, "ZADD to the unread queue", "desk"),
    checked(346, 358, "MULTI with LPUSH, LTRIM and EXPIRE of a message", |run| Box::pin(messages::a_message_of_the_old_service_joins_the_list(run))),
    planned(359, 369, "MULTI with HSET and EXPIRE of the dashboard", "desk"),
    planned(370, 376, "SCARD and GET decide who is free", "desk"),
    not_a_key(377, 378, "summary"),
];

#[tokio::test]
async fn every_line_of_the_document_holds_beside_the_old_service() {
    assert_complete(TABLE, LINE_COUNT);
    let run = SideBySide::start(&DOCUMENT).await;
    run_checks(TABLE, &run).await;
    run.finish().await;
}

/// Keys of capabilities that Parlor does not have yet, as the old service writes them.
async fn write_desk_and_statistics(old: &OldService) {
    for _ in 0..3 {
        old.call("countRequest", json!(["GET /api/forum/questions"]))
            .await;
    }
    old.call("setAvailable", json!(["123"])).await;
    old.call("assign", json!(["123", "456"])).await;
    old.call("queueUnread", json!(["456", 100])).await;
    let figures =
        json!({ "total_active": "45", "assigned_to_me": "12", "avg_response_time": "4.2" });
    old.call("cacheDashboard", json!(["123", figures])).await;
}

#[tokio::test]
async fn parlor_starts_beside_the_old_service_and_leaves_it_as_it_was() {
    let mut run = SideBySide::start_after(&DOCUMENT, async |old| {
        sessions::write_sessions(old, "ha:").await;
        write_desk_and_statistics(old).await;
        old.call("fixedWindow", json!(["before", 1, 900_000])).await;
        old.call("cacheMessage", json!(["before", { "id": 1 }]))
            .await;
    })
    .await;
    sessions::blocked_users_are_refused(&run, "ha:").await;
    sessions::logged_in_users_stay(&run, "ha:").await;
    run.conversation("456", &["yara", "yves"]).await;
    run.send("456", "yara", "a conversation with the id of another one")
        .await
        .created();
    run.stop_parlor().await;
    let old = &run.old;
    assert_eq!(old.run("GET ha:requests:total").await, "3");
    let endpoint = old.run("GET 'ha:requests:endpoint:GET /api/forum/questions'");
    assert_eq!(endpoint.await, "3");
    assert_eq!(old.call("isFree", json!(["123"])).await, true);
    assert_eq!(
        old.run("SMEMBERS ha:admin:123:assignments").await,
        json!(["456"])
    );
    for queue in ["active", "unread"] {
        let line = format!("ZREVRANGE ha:chat:conversations:{queue} 0 -1");
        assert_eq!(old.run(&line).await, json!(["456"]), "{queue}");
    }
    assert_eq!(
        old.run("HGET ha:chat:admin:dashboard:123 total_active")
            .await,
        "45"
    );
    assert_eq!(
        old.call("fixedWindow", json!(["before", 1, 900_000])).await,
        false
    );
    assert_eq!(
        old.call("recentMessages", json!(["before", 20])).await,
        json!([{ "id": 1 }])
    );
    // After the rollback the sessions are those of the old service.
    assert_eq!(old.call("validate", json!(["l1"])).await, "User disabled");
    assert_eq!(old.call("validate", json!(["l3"])).await, json!(null));
    run.finish().await;
}
