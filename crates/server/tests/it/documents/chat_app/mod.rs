//! S0, the keys of a chat application: one presence document per user, typing, runs of jobs.

mod presence;
mod side_by_side;
mod typing;

use serde_json::Value;

use super::monitor::{ChangeKind, ForeignChange, TakeoverRule};
use super::side_by_side::{SchemaDocument, SideBySide};
use super::table::{TableRow, assert_complete, checked, not_a_key, planned, run_checks};

const DOCUMENT: SchemaDocument = SchemaDocument {
    preset: "chat-app",
    program: "chat_app.mjs",
    rules: RULES,
};

/// Changes of Parlor to keys that the old service wrote.
const RULES: &[TakeoverRule] = &[
    TakeoverRule {
        key: "presence:*",
        kind: ChangeKind::Overwrite,
        reason: "a user who is connected to Parlor, too, was seen later; Parlor keeps the end of the replaced document",
        allows: |change, _| is_later_document_of_the_same_user(change, "lastSeen"),
    },
    TakeoverRule {
        key: "typing:*:*",
        kind: ChangeKind::Overwrite,
        reason: "the user types in both services; the later start ends later",
        allows: |change, _| is_later_document_of_the_same_user(change, "timestamp"),
    },
];

fn is_later_document_of_the_same_user(change: &ForeignChange, time: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (old, new) = (parse(&change.old), parse(&change.new));
    old["userId"] == new["userId"] && new[time].as_u64() >= old[time].as_u64()
}

const LINE_COUNT: u32 = 306;

const JOBS: &str = "jobs";

#[rustfmt::skip]
const TABLE: &[TableRow] = &[
    not_a_key(1, 11, "title and head of the overview"),
    checked(12, 12, "`presence:{user}`, 5 minutes", |run| Box::pin(presence::the_document_of_a_connected_user(run))),
    checked(13, 13, "`typing:{conv}:{user}`, 3 seconds", |run| Box::pin(typing::the_document_of_a_typing_user(run))),
    planned(14, 14, "`cron:last-run:{job}`, no TTL", JOBS),
    not_a_key(15, 19, "heading"),
    checked(20, 23, "key of presence", |run| Box::pin(presence::one_key_per_online_user(run))),
    checked(24, 26, "pushes depend on presence", |run| Box::pin(presence::a_push_goes_to_users_who_are_offline(run))),
    checked(27, 29, "TTL of 300 s", |run| Box::pin(presence::the_document_of_a_connected_user(run))),
    checked(30, 38, "JSON with `userId`, `status` and `lastSeen` in ms", |run| Box::pin(presence::the_document_of_a_connected_user(run))),
    checked(39, 41, "a connect and a heartbeat write the document", |run| Box::pin(presence::a_heartbeat_writes_the_document_again(run))),
    checked(42, 42, "the check before a push", |run| Box::pin(presence::a_push_goes_to_users_who_are_offline(run))),
    checked(43, 44, "the TTL removes the key", |run| Box::pin(presence::a_key_that_expires_is_offline_on_both_sides(run))),
    checked(45, 52, "SETEX of the old service", |run| Box::pin(presence::the_document_of_the_old_service_is_read(run))),
    checked(53, 56, "GET: a document means online", |run| Box::pin(presence::a_get_finds_users_of_both_sides(run))),
    checked(57, 61, "DEL on disconnect", |run| Box::pin(presence::a_disconnect_deletes_the_document(run))),
    not_a_key(62, 64, "heading"),
    checked(65, 68, "key of typing", |run| Box::pin(typing::the_document_of_a_typing_user(run))),
    not_a_key(69, 72, "purpose"),
    checked(73, 84, "TTL of 3 s, JSON with `userId`, `username` and `timestamp` in ms", |run| Box::pin(typing::the_document_of_a_typing_user(run))),
    checked(85, 87, "`typing:start` sets the key, at most every 2 s", |run| Box::pin(typing::a_second_start_is_throttled(run))),
    checked(88, 88, "`typing:stop` deletes the key", |run| Box::pin(typing::a_stop_deletes_the_key(run))),
    checked(89, 90, "the TTL clears the state", |run| Box::pin(typing::a_client_that_vanishes_stops_to_type(run))),
    checked(91, 96, "throttle in memory, per user and conversation", |run| Box::pin(typing::the_throttle_is_per_user_and_conversation(run))),
    checked(97, 104, "SETEX of the old service", |run| Box::pin(typing::users_of_both_sides_are_listed(run))),
    checked(105, 108, "DEL of the old service", |run| Box::pin(typing::each_side_stops_its_own_users(run))),
    checked(109, 114, "KEYS and MGET list the users", |run| Box::pin(typing::users_of_both_sides_are_listed(run))),
    planned(115, 168, "`cron:last-run:{job}`: time of the last run, read before and written after each run", JOBS),
    not_a_key(169, 172, "heading"),
    checked(173, 177, "colons separate the parts of a key", |run| Box::pin(presence::one_key_per_online_user(run))),
    not_a_key(178, 180, "heading"),
    checked(181, 181, "`presence:{user}`", |run| Box::pin(presence::one_key_per_online_user(run))),
    checked(182, 182, "`typing:{conv}:{user}`", |run| Box::pin(typing::one_key_per_typing_user(run))),
    planned(183, 184, "`cron:last-run:{job}`", JOBS),
    not_a_key(185, 186, "heading"),
    checked(187, 187, "only presence begins with `presence:`", |run| Box::pin(presence::one_key_per_online_user(run))),
    checked(188, 188, "only typing begins with `typing:`", |run| Box::pin(typing::one_key_per_typing_user(run))),
    planned(189, 190, "only jobs begin with `cron:`", JOBS),
    not_a_key(191, 198, "heading of the memory table"),
    checked(199, 200, "about 80 and 100 bytes per key", |run| Box::pin(typing::values_have_the_documented_size(run))),
    planned(201, 202, "about 30 bytes per job", JOBS),
    not_a_key(203, 204, "sum"),
    checked(205, 209, "keys expire without a cleanup", |run| Box::pin(typing::the_end_of_a_key_is_notified(run))),
    not_a_key(210, 223, "persistence and memory of Redis"),
    checked(224, 227, "notifications of expired keys", |run| Box::pin(presence::the_end_of_a_key_is_notified(run))),
    checked(228, 249, "options of the connection", |run| Box::pin(presence::a_get_finds_users_of_both_sides(run))),
    not_a_key(250, 253, "heading"),
    checked(254, 255, "KEYS counts online users", |run| Box::pin(presence::one_key_per_online_user(run))),
    checked(256, 258, "KEYS counts typing users", |run| Box::pin(typing::one_key_per_typing_user(run))),
    planned(259, 262, "KEYS lists the jobs", JOBS),
    checked(263, 274, "TTL of a key, of a persistent key and of a missing key", |run| Box::pin(presence::ttl_tells_connected_and_missing_users_apart(run))),
    not_a_key(275, 288, "MONITOR, which the recorder of this test follows"),
    checked(289, 292, "typing ends without a stop", |run| Box::pin(typing::a_client_that_vanishes_stops_to_type(run))),
    checked(293, 296, "no heartbeat after a disconnect", |run| Box::pin(presence::a_disconnect_deletes_the_document(run))),
    planned(297, 300, "a run survives a restart", JOBS),
    not_a_key(301, 306, "related documents"),
];

#[tokio::test]
async fn every_line_of_the_document_holds_beside_the_old_service() {
    assert_complete(TABLE, LINE_COUNT);
    let run = SideBySide::start(&DOCUMENT).await;
    run_checks(TABLE, &run).await;
    run.finish().await;
}
