//! S1, the keys of a gateway for chat rooms: the sockets of each user, and a cache of members.

mod membership;
mod presence;
mod side_by_side;

use super::monitor::{ChangeKind, TakeoverRule};
use super::side_by_side::{SchemaDocument, SideBySide};
use super::table::{TableRow, assert_complete, checked, not_a_key, run_checks};

const DOCUMENT: SchemaDocument = SchemaDocument {
    preset: "rooms",
    program: "rooms.mjs",
    rules: RULES,
};

/// Changes of Parlor to keys that the old service wrote, for conversations that Parlor has in its database.
const RULES: &[TakeoverRule] = &[
    TakeoverRule {
        key: "membership:*:*",
        kind: ChangeKind::Overwrite,
        reason: "the rows of Parlor decide about its own conversations",
        allows: |change, _| is_in_parlor(&change.key),
    },
    TakeoverRule {
        key: "membership:*:*",
        kind: ChangeKind::Delete,
        reason: "the document deletes the cached answer when the members change",
        allows: |change, _| is_in_parlor(&change.key),
    },
];

/// Conversations of Parlor have this prefix in these tests, and rooms of the old service have not.
fn is_in_parlor(key: &str) -> bool {
    key.starts_with("membership:parlor-")
}

const LINE_COUNT: u32 = 103;

#[rustfmt::skip]
const TABLE: &[TableRow] = &[
    not_a_key(1, 8, "title and head of the overview"),
    checked(9, 9, "`presence:user:{user}` is a hash with a TTL of 60 s", |run| Box::pin(presence::each_connection_is_a_field(run))),
    checked(10, 10, "`membership:{conv}:{user}` is a string with a TTL of 30 s", |run| Box::pin(membership::answers_are_cached(run))),
    not_a_key(11, 15, "heading"),
    checked(16, 24, "the field is the socket id, the value is JSON", |run| Box::pin(presence::each_connection_is_a_field(run))),
    checked(25, 26, "60 s, renewed by a heartbeat every 20 s", |run| Box::pin(presence::a_heartbeat_renews_field_and_ttl(run))),
    not_a_key(27, 30, "head of the table of events"),
    checked(31, 31, "connect: HSET and EXPIRE 60", |run| Box::pin(presence::each_connection_is_a_field(run))),
    checked(32, 32, "heartbeat: HSET and EXPIRE 60", |run| Box::pin(presence::a_heartbeat_renews_field_and_ttl(run))),
    checked(33, 33, "disconnect: HDEL of the socket", |run| Box::pin(presence::a_disconnect_removes_its_own_field(run))),
    checked(34, 34, "last disconnect: DEL", |run| Box::pin(presence::the_last_disconnect_ends_the_key(run))),
    checked(35, 36, "EXISTS tells who is online", |run| Box::pin(presence::exists_finds_users_of_both_sides(run))),
    not_a_key(37, 39, "heading"),
    checked(40, 46, "HGETALL of a user with two sockets", |run| Box::pin(presence::the_example_of_the_document_is_read(run))),
    checked(47, 49, "TTL of the hash", |run| Box::pin(presence::each_connection_is_a_field(run))),
    checked(50, 54, "the value after a heartbeat has `refreshedAt`", |run| Box::pin(presence::a_heartbeat_renews_field_and_ttl(run))),
    checked(55, 56, "one user, several sockets", |run| Box::pin(presence::each_connection_is_a_field(run))),
    checked(57, 57, "the TTL ends the presence of a gateway that died", |run| Box::pin(presence::the_ttl_ends_the_fields_of_a_dead_gateway(run))),
    checked(58, 59, "HLEN 0 after HDEL: the key is deleted", |run| Box::pin(presence::the_last_disconnect_ends_the_key(run))),
    not_a_key(60, 63, "heading"),
    checked(64, 72, "key, `1` or `0`, 30 s", |run| Box::pin(membership::answers_are_cached(run))),
    not_a_key(73, 76, "head of the table of events"),
    checked(77, 77, "miss: GET, row, SET EX 30", |run| Box::pin(membership::answers_are_cached(run))),
    checked(78, 78, "hit: GET", |run| Box::pin(membership::each_side_uses_the_answers_of_its_own_rows(run))),
    checked(79, 80, "join: DEL, then the row is read again", |run| Box::pin(membership::a_join_deletes_the_answer(run))),
    not_a_key(81, 83, "heading"),
    checked(84, 90, "GET of a member and its TTL", |run| Box::pin(membership::answers_are_cached(run))),
    checked(91, 94, "GET of another user", |run| Box::pin(membership::answers_are_cached(run))),
    checked(95, 99, "DEL of the old service", |run| Box::pin(membership::a_deleted_answer_is_read_again(run))),
    checked(100, 101, "negative answers are cached", |run| Box::pin(membership::answers_are_cached(run))),
    checked(102, 102, "a change is visible after at most 30 s", |run| Box::pin(membership::a_change_is_visible_at_once(run))),
    checked(103, 103, "a join is visible at once", |run| Box::pin(membership::a_join_deletes_the_answer(run))),
];

#[tokio::test]
async fn every_line_of_the_document_holds_beside_the_old_service() {
    assert_complete(TABLE, LINE_COUNT);
    let run = SideBySide::start(&DOCUMENT).await;
    run_checks(TABLE, &run).await;
    run.finish().await;
}
