//! S2, the schema of a chat service: presence by sockets, typing, message rate, recent messages, unread counts, events.

mod events;
mod flows;
mod messages;
mod presence;
mod tools;
mod typing_and_limits;

use serde_json::json;

use super::monitor::{ChangeKind, Keyspace, TakeoverRule};
use super::sessions;
use super::side_by_side::{SchemaDocument, SideBySide};
use super::table::{TableRow, assert_complete, checked, not_a_key, planned, run_checks};

const DOCUMENT: SchemaDocument = SchemaDocument {
    preset: "chat-service",
    program: "chat_service.mjs",
    rules: RULES,
};

/// Changes of Parlor to keys that the old service wrote.
const RULES: &[TakeoverRule] = &[
    sessions::renewal_rule("user:*"),
    sessions::logout_rule("user:*"),
    TakeoverRule {
        key: "user:*:online",
        kind: ChangeKind::Overwrite,
        reason: "a user who connects is online; `false` needs an empty set of sockets",
        allows: |change, keyspace| {
            let sockets = change.key.replace(":online", ":sockets");
            change.new == "true" || keyspace.foreign_entries(&sockets).is_empty()
        },
    },
    TakeoverRule {
        key: "messages:*:recent",
        kind: ChangeKind::Delete,
        reason: "Parlor has the messages of the conversation in rows, and fills the list from them",
        allows: |change, keyspace| has_rows(&change.key, keyspace),
    },
    TakeoverRule {
        key: "conversation:*:participants",
        kind: ChangeKind::Delete,
        reason: "Parlor has the members of the conversation in rows, and fills the set from them",
        allows: |change, keyspace| has_rows(&change.key, keyspace),
    },
    TakeoverRule {
        key: "rate:message:*",
        kind: ChangeKind::Expire,
        reason: "the window gets the end that the other service was about to set",
        allows: |change, _| change.old == "TTL None",
    },
    TakeoverRule {
        key: "lastseen:*",
        kind: ChangeKind::Overwrite,
        reason: "the later activity of the user replaces the earlier one",
        allows: |change, _| change.new > change.old,
    },
];

/// True if Parlor has applied a message of the conversation in this key, or changed its members.
fn has_rows(key: &str, keyspace: &Keyspace) -> bool {
    let conversation = key.split(':').nth(1).unwrap_or_default();
    ["top", "gen"].iter().any(|name| {
        let internal = format!("parlor:{name}:{conversation}");
        keyspace.value(&internal, "").is_some()
    })
}

const LINE_COUNT: u32 = 431;

#[rustfmt::skip]
const TABLE: &[TableRow] = &[
    not_a_key(1, 7, "title and overview"),
    checked(8, 18, "`user:{user}:online` is the string `true` or `false` without a TTL", |run| Box::pin(presence::flag_follows_connections(run))),
    checked(19, 24, "SET and GET of the flag", |run| Box::pin(presence::flag_of_the_old_service_is_read(run))),
    checked(25, 33, "`user:{user}:sockets` is the set of the open sockets, one per tab", |run| Box::pin(presence::each_connection_is_a_member(run))),
    checked(34, 43, "SADD, SMEMBERS and SCARD", |run| Box::pin(presence::both_sides_add_and_remove_their_sockets(run))),
    checked(44, 51, "`socket:{socket}:user` is the user of a socket", |run| Box::pin(presence::owner_of_a_socket_is_found(run))),
    checked(52, 60, "SET and GET of the owner", |run| Box::pin(presence::owners_of_foreign_sockets_stay(run))),
    checked(61, 71, "`typing:{conversation}:{user}` is `1` for 5 s", |run| Box::pin(typing_and_limits::typing_sets_the_flag(run))),
    checked(72, 78, "SET with EX 5, and GET", |run| Box::pin(typing_and_limits::typing_of_the_old_service_stays(run))),
    checked(79, 92, "KEYS lists all typing users of a conversation", |run| Box::pin(typing_and_limits::typing_users_of_both_sides_are_listed(run))),
    checked(93, 103, "`rate:message:{user}` counts messages for 60 s", |run| Box::pin(typing_and_limits::messages_count_in_the_key(run))),
    checked(104, 117, "INCR, PEXPIRE and GET", |run| Box::pin(typing_and_limits::both_sides_share_the_count(run))),
    checked(118, 123, "20 messages in 60,000 ms", |run| Box::pin(typing_and_limits::the_limit_holds_across_both_sides(run))),
    checked(124, 135, "`messages:{conversation}:recent` is a list of at most 100 JSON messages for 1 h", |run| Box::pin(messages::recent_messages_are_listed(run))),
    checked(136, 146, "LPUSH, LTRIM, EXPIRE and LRANGE", |run| Box::pin(messages::foreign_recent_lists_stay(run))),
    checked(147, 157, "`unread:{user}:{conversation}` counts until the messages are read", |run| Box::pin(messages::unread_messages_are_counted(run))),
    checked(158, 168, "INCR, GET, and DEL when the user reads", |run| Box::pin(messages::foreign_counters_stay(run))),
    checked(169, 177, "`unread:{user}:total` is the badge", |run| Box::pin(messages::the_total_is_the_sum_of_both_sides(run))),
    checked(178, 190, "INCRBY and DECRBY", |run| Box::pin(messages::changes_of_the_total_stay(run))),
    checked(191, 206, "`events:message.created` carries conversation, message, sender and participants", |run| Box::pin(events::messages_are_announced(run))),
    checked(207, 216, "PUBLISH by the chat service, SUBSCRIBE by the notification service", |run| Box::pin(events::both_sides_announce_messages(run))),
    checked(217, 224, "`events:user.online` and `events:user.offline` carry user and time", |run| Box::pin(events::presence_is_announced_once(run))),
    checked(225, 232, "PUBLISH of both", |run| Box::pin(events::events_of_the_old_service_reach_its_subscribers(run))),
    checked(233, 243, "`lastseen:{user}` is the ISO 8601 time of the last activity, without a TTL", |run| Box::pin(flows::last_activity_is_written(run))),
    checked(244, 252, "SET and GET of the time", |run| Box::pin(flows::last_activity_at_the_old_service_stays(run))),
    checked(253, 263, "`conversation:{conversation}:participants` is a set for 1 h", |run| Box::pin(messages::participants_are_cached(run))),
    checked(264, 277, "SADD, SISMEMBER, SMEMBERS and EXPIRE", |run| Box::pin(messages::foreign_participants_stay(run))),
    checked(278, 289, "variables: host, port, password, channel, rate limit", |run| Box::pin(flows::variables_of_the_document_configure_parlor(run))),
    not_a_key(290, 296, "retries and connections of the service's own client"),
    checked(297, 308, "isUserOnline, addUserSocket", |run| Box::pin(flows::users_of_the_old_service_are_online_in_parlor(run))),
    checked(309, 315, "removeUserSocket: offline with the last socket", |run| Box::pin(flows::the_last_socket_of_either_side_ends_presence(run))),
    checked(316, 323, "checkMessageRateLimit before a message", |run| Box::pin(typing_and_limits::a_rejected_message_is_rejected_on_both_sides(run))),
    checked(324, 335, "publishMessageCreated", |run| Box::pin(events::a_published_message_reaches_the_subscriber(run))),
    checked(336, 351, "prefixes of all keys and channels", |run| Box::pin(flows::keys_have_the_names_of_the_document(run))),
    checked(352, 358, "which keys have a TTL, and which", |run| Box::pin(flows::lifetimes_are_those_of_the_document(run))),
    not_a_key(359, 371, "advice on memory and patterns"),
    checked(372, 384, "INFO, DBSIZE, MEMORY STATS, SCAN by pattern", |run| Box::pin(flows::monitoring_finds_the_documented_keys_only(run))),
    checked(385, 393, "PING", |run| Box::pin(flows::health_is_checked(run))),
    checked(394, 399, "EVAL that deletes all typing keys", |run| Box::pin(flows::typing_is_cleared_by_the_old_service(run))),
    checked(400, 404, "EVAL that resets all rate limits", |run| Box::pin(flows::limits_are_reset_by_the_old_service(run))),
    not_a_key(405, 420, "sessions expire by their TTL; security advice"),
    checked(421, 426, "future: sessions", |run| Box::pin(flows::sessions_are_hashes_with_a_ttl(run))),
    planned(427, 427, "future: places of users", "places"),
    planned(428, 428, "future: pending uploads", "uploads"),
    planned(429, 429, "future: search results", "search"),
    planned(430, 430, "future: users whom a user has blocked", "blocked users"),
    checked(431, 431, "future: delivery receipts", |run| Box::pin(flows::delivery_is_tracked(run))),
];

#[tokio::test]
async fn every_line_of_the_document_holds_beside_the_old_service() {
    assert_complete(TABLE, LINE_COUNT);
    let run = SideBySide::start(&DOCUMENT).await;
    run_checks(TABLE, &run).await;
    run.finish().await;
}

#[tokio::test]
async fn parlor_starts_beside_the_old_service_and_leaves_it_as_it_was() {
    let mut run = SideBySide::start_after(&DOCUMENT, async |old| {
        sessions::write_sessions(old, "").await;
        for user in ["xan", "xia"] {
            old.call("addUserSocket", json!([user, format!("{user}-1")]))
                .await;
        }
        old.call("countUnread", json!(["xan", "before"])).await;
        old.call("cacheMessage", json!(["before", { "id": "1" }]))
            .await;
        old.call("checkMessageRateLimit", json!(["xan"])).await;
        old.run("SADD conversation:before:participants xan xia")
            .await;
        old.run("HSET user:xia name Xia mail xia@example.com").await;
    })
    .await;
    sessions::blocked_users_are_refused(&run, "").await;
    sessions::logged_in_users_stay(&run, "").await;
    assert_eq!(run.presence("xia").await["external"], true);
    // Both users come to Parlor as well, with a new conversation; one of them stays until Parlor stops.
    let tabs = [
        run.connect("xan").await,
        run.connect("xia").await,
        run.connect("zoe").await,
    ];
    run.conversation("during", &["xan", "xia"]).await;
    run.send("during", "xia", "hello").await.created();
    run.old.wait_for("GET unread:xan:total", "2").await;
    let [_xan, xia, _zoe] = tabs;
    xia.disconnect().await.unwrap();
    run.old.wait_for("SCARD user:xia:sockets", 1).await;
    run.stop_parlor().await;
    let old = &run.old;
    for user in ["xan", "xia"] {
        assert_eq!(old.call("isUserOnline", json!([user])).await, true);
        assert_eq!(
            old.run(&format!("SMEMBERS user:{user}:sockets")).await,
            json!([format!("{user}-1")])
        );
        assert_eq!(old.run(&format!("GET socket:{user}-1:user")).await, user);
        for key in ["online", "sockets"] {
            assert_eq!(
                old.run(&format!("TTL user:{user}:{key}")).await,
                -1,
                "{user} {key}"
            );
        }
    }
    // The user of Parlor alone does not stay online for ever.
    let left = old.run("TTL user:zoe:online").await;
    assert!((0..=10).contains(&left.as_i64().unwrap()), "{left}");
    assert_eq!(old.call("unread", json!(["xan", "before"])).await, 1);
    assert_eq!(
        old.call("recentMessages", json!(["before", 20])).await,
        json!([{ "id": "1" }])
    );
    assert_eq!(
        old.call("participants", json!(["before"])).await,
        json!(["xan", "xia"])
    );
    assert_eq!(old.run("HGET user:xia name").await, "Xia");
    run.finish().await;
}
