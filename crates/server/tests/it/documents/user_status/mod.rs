//! S3, the keys of a service of online statuses: one word per user.

mod side_by_side;
mod status;

use super::monitor::{ChangeKind, TakeoverRule};
use super::side_by_side::{SchemaDocument, SideBySide};
use super::table::{TableRow, assert_complete, checked, not_a_key, run_checks};

const DOCUMENT: SchemaDocument = SchemaDocument {
    preset: "user-status",
    program: "user_status.py",
    rules: RULES,
};

/// Changes of Parlor to keys that the old service wrote.
const RULES: &[TakeoverRule] = &[TakeoverRule {
    key: "user:status:*",
    kind: ChangeKind::Overwrite,
    reason: "a user who sets a status, or connects, replaces the earlier status; a heartbeat never does",
    allows: |change, _| ["online", "offline"].contains(&change.new.as_str()),
}];

const LINE_COUNT: u32 = 148;

#[rustfmt::skip]
const TABLE: &[TableRow] = &[
    not_a_key(1, 4, "title"),
    checked(5, 8, "`user:status:{user}`", |run| Box::pin(status::online_for_30_seconds(run))),
    checked(9, 13, "`online` or `offline`", |run| Box::pin(status::away_and_busy_are_online(run))),
    checked(14, 19, "30 s", |run| Box::pin(status::online_for_30_seconds(run))),
    not_a_key(20, 21, "heading"),
    checked(22, 30, "SET `online` EX 30", |run| Box::pin(status::both_sides_read_online(run))),
    checked(31, 39, "SET `offline` EX 86400", |run| Box::pin(status::both_sides_read_offline(run))),
    checked(40, 49, "GET: `online`, `offline` or nothing", |run| Box::pin(status::the_three_answers_are_the_same_on_both_sides(run))),
    checked(50, 56, "MGET of several users", |run| Box::pin(status::many_users_are_read_at_once(run))),
    checked(57, 63, "EXPIRE 30 while the value is `online`", |run| Box::pin(status::a_heartbeat_extends_the_key_while_it_is_online(run))),
    not_a_key(64, 67, "heading"),
    checked(68, 70, "notifications of expired keys", |run| Box::pin(status::the_end_of_a_key_is_notified(run))),
    not_a_key(71, 88, "memory of Redis, pool of connections"),
    checked(89, 95, "SetUserStatus(ONLINE)", |run| Box::pin(status::online_for_30_seconds(run))),
    checked(96, 103, "SendHeartbeat", |run| Box::pin(status::a_heartbeat_extends_the_key_while_it_is_online(run))),
    checked(104, 110, "SetUserStatus(OFFLINE)", |run| Box::pin(status::offline_for_24_hours_with_and_without_a_device(run))),
    checked(111, 118, "without heartbeats the key expires", |run| Box::pin(status::a_key_that_expires_is_offline(run))),
    checked(119, 128, "GetUserStatus", |run| Box::pin(status::the_three_answers_are_the_same_on_both_sides(run))),
    not_a_key(129, 145, "performance, scaling, connection errors, memory"),
    checked(146, 147, "a missing key is offline", |run| Box::pin(status::a_heartbeat_of_an_unknown_user_registers_nobody(run))),
    not_a_key(148, 148, "network errors"),
];

#[tokio::test]
async fn every_line_of_the_document_holds_beside_the_old_service() {
    assert_complete(TABLE, LINE_COUNT);
    let run = SideBySide::start(&DOCUMENT).await;
    status::open_parlor(&run).await;
    run_checks(TABLE, &run).await;
    run.finish().await;
}
