//! Beginning and using sessions.

use std::time::Duration;

use futures_util::future::join_all;
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::database::{Database, PerBackend};
use parlor_chat::sessions::SessionStatus;

use super::fixture::{SESSION_CACHE_TTL, SessionsFixture, code, user};
use super::on_every_engine;
use crate::support::service_caller;

const WEEK: Duration = Duration::from_secs(7 * 86_400);
const HALF_A_MINUTE: Duration = Duration::from_secs(30);

on_every_engine! {
    a_session_is_stored_as_documented;
    a_user_without_a_session_is_refused;
    a_session_lasts_a_week_after_it_was_last_used;
    a_session_is_written_at_most_twice_a_minute;
    a_second_login_changes_the_device_and_nothing_else;
    each_of_many_concurrent_logins_gets_its_own_result;
    a_visitor_may_read_only;
    a_visitor_gets_an_id_a_token_and_a_session;
    expired_sessions_of_visitors_are_removed_from_the_database;
    a_service_needs_no_session;
    status_and_active_written_by_other_services_are_respected;
}

pub async fn a_session_is_stored_as_documented(fixture: SessionsFixture) {
    let now = fixture.now().as_millis().to_string();
    fixture.caller_with_session("alice").await;
    let fields = [
        ("active", "true"),
        ("device_id", "phone"),
        ("ip_address", "192.0.2.1"),
        ("last_seen", &now),
        ("login_time", &now),
        ("status", "login"),
    ];
    let expected = fields.map(|(field, value)| (field.to_owned(), value.to_owned()));
    assert_eq!(fixture.hash("alice").await, expected.into());
    let mut ttl = redis::cmd("PTTL");
    ttl.arg(fixture.key("alice"));
    let left: u64 = ttl.query_async(&mut fixture.store.clone()).await.unwrap();
    let week = u64::try_from(WEEK.as_millis()).unwrap();
    assert!(left > week - 600_000 && left <= week, "{left}");
    let session = fixture.nodes[1].session(&user("alice")).await.unwrap();
    assert_eq!(
        (session.device_id.as_str(), session.status),
        ("phone", SessionStatus::Login)
    );
}

pub async fn a_user_without_a_session_is_refused(fixture: SessionsFixture) {
    let alice = fixture.caller("alice");
    for node in [0, 1] {
        assert_eq!(
            fixture.check_error(node, &alice).await,
            Some(ErrorCode::SessionExpired)
        );
    }
    fixture.caller_with_session("alice").await;
    for node in [0, 1] {
        assert_eq!(fixture.check_error(node, &alice).await, None);
    }
}

pub async fn a_session_lasts_a_week_after_it_was_last_used(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    for _ in 0..3 {
        fixture.advance(WEEK - Duration::from_secs(600)).await;
        assert_eq!(fixture.check_error(1, &alice).await, None);
    }
    fixture.advance(WEEK + Duration::from_secs(1)).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
    assert!(fixture.hash("alice").await.is_empty());
}

pub async fn a_session_is_written_at_most_twice_a_minute(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    assert_eq!(fixture.check_error(0, &alice).await, None);
    let begun = fixture.now().as_millis().to_string();
    fixture
        .advance(HALF_A_MINUTE - Duration::from_millis(1))
        .await;
    assert_eq!(fixture.check_error(0, &alice).await, None);
    assert_eq!(fixture.hash("alice").await["last_seen"], begun);
    fixture.advance(Duration::from_millis(1)).await;
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(fixture.check_error(0, &alice).await, None);
    assert_eq!(
        fixture.hash("alice").await["last_seen"],
        fixture.now().as_millis().to_string()
    );
}

async fn a_second_login_changes_the_device_and_nothing_else(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.advance(Duration::from_secs(5)).await;
    fixture.nodes[1]
        .begin(&alice, Some("laptop"))
        .await
        .unwrap();
    assert_eq!(fixture.hash("alice").await["device_id"], "laptop");
    assert_eq!(fixture.check_error(0, &alice).await, None);
    fixture.nodes[1].begin(&alice, None).await.unwrap();
    assert_eq!(fixture.hash("alice").await["device_id"], "api");
    let wrong = fixture.nodes[1].begin(&alice, Some("a b")).await;
    assert_eq!(code(wrong), Some(ErrorCode::InvalidId));
}

async fn each_of_many_concurrent_logins_gets_its_own_result(fixture: SessionsFixture) {
    let early = fixture.caller_with_session("carol").await;
    fixture.nodes[0].end(&user("carol")).await.unwrap();
    fixture.nodes[0].block(&user("bob"), None).await.unwrap();
    fixture.advance(Duration::from_secs(1)).await;
    let names: Vec<String> = (0..40).map(|number| format!("user-{number}")).collect();
    let mut callers: Vec<Caller> = names.iter().map(|name| fixture.caller(name)).collect();
    // A user who begins two sessions at the same time, a blocked user, and a revoked token.
    callers.extend([fixture.caller("user-0"), fixture.caller("bob"), early]);
    let devices: Vec<String> = (0..callers.len())
        .map(|at| format!("device-{at}"))
        .collect();
    let begin = |(caller, device)| fixture.nodes[0].begin(caller, Some(device));
    let begun = callers.iter().zip(devices.iter().map(String::as_str));
    let begun = join_all(begun.map(begin)).await;
    let codes: Vec<Option<ErrorCode>> = begun.into_iter().map(code).collect();
    let (begun, refused) = codes.split_at(names.len() + 1);
    assert!(begun.iter().all(Option::is_none), "{begun:?}");
    assert_eq!(
        refused,
        [
            Some(ErrorCode::SessionBlocked),
            Some(ErrorCode::SessionExpired)
        ]
    );
    // The rows contain the same sessions.
    for lost in [false, true] {
        if lost {
            fixture.raise_epoch().await;
        }
        for (name, device) in names.iter().zip(&devices).skip(1) {
            let session = fixture.nodes[1].session(&user(name)).await.unwrap();
            assert_eq!(session.device_id.as_str(), device);
        }
        let first = fixture.nodes[1].session(&user("user-0")).await.unwrap();
        assert!(["device-0", "device-40"].contains(&first.device_id.as_str()));
        let ended = fixture.nodes[1].session(&user("carol")).await;
        assert_eq!(code(ended), Some(ErrorCode::SessionExpired));
    }
}

async fn a_visitor_may_read_only(fixture: SessionsFixture) {
    let visitor = Caller {
        anonymous: true,
        ..fixture.caller("visitor-1")
    };
    fixture.nodes[0].begin(&visitor, None).await.unwrap();
    assert_eq!(fixture.hash("visitor-1").await["status"], "anonymous");
    let caller = fixture.nodes[1]
        .check(fixture.caller("visitor-1"))
        .await
        .unwrap();
    assert_eq!(
        code(caller.require_write_access()),
        Some(ErrorCode::ReadOnlySession)
    );
}

async fn a_visitor_gets_an_id_a_token_and_a_session(fixture: SessionsFixture) {
    let stranger = Caller::unauthenticated(None);
    let (token, session) = fixture.nodes[0]
        .begin_visitor_session(&stranger, None)
        .await
        .unwrap();
    let other = fixture.nodes[0]
        .begin_visitor_session(&stranger, None)
        .await
        .unwrap()
        .1;
    assert_ne!(session.user_id, other.user_id);
    assert_eq!(session.status, SessionStatus::Anonymous);
    let visitor = session.user_id.as_str();
    assert_eq!(token, format!("token of {visitor}"));
    let caller = fixture.nodes[1]
        .check(fixture.caller(visitor))
        .await
        .unwrap();
    assert!(caller.anonymous);
}

async fn expired_sessions_of_visitors_are_removed_from_the_database(fixture: SessionsFixture) {
    let stranger = Caller::unauthenticated(None);
    let begin = async || {
        let begun = fixture.nodes[0].begin_visitor_session(&stranger, None);
        begun.await.unwrap().1.user_id
    };
    // More than one page.
    let database = fixture.database().await;
    let many = "
        WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1100)
        INSERT INTO sessions (user_id, device_id, status, login_at, last_seen, ip_address)
        SELECT 'visitor-' || n, 'phone', 'anonymous', 1, 1, '' FROM numbers";
    execute(&database, many).await;
    fixture.caller_with_session("alice").await;
    begin().await;
    assert_eq!(
        fixture.nodes[0].remove_expired_visitors().await.unwrap(),
        1_100
    );
    // The row may show a use that is an hour older than the last one.
    fixture
        .advance(Duration::from_secs(7 * 24 * 3_600 + 3_601))
        .await;
    let recent = begin().await;
    for removed in [1, 0] {
        assert_eq!(
            fixture.nodes[1].remove_expired_visitors().await.unwrap(),
            removed
        );
    }
    let users = "SELECT user_id FROM sessions ORDER BY user_id";
    let left: Vec<String> = match database.reader() {
        PerBackend::Sqlite(pool) => sqlx::query_scalar(users).fetch_all(pool).await,
        PerBackend::Postgres(pool) => sqlx::query_scalar(users).fetch_all(pool).await,
    }
    .unwrap();
    assert_eq!(left, ["alice", recent.as_str()]);
}

/// Runs a statement.
async fn execute(database: &Database, statement: &'static str) {
    let mut tx = database.begin().await.unwrap();
    match tx.connection() {
        PerBackend::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        PerBackend::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
    }
    tx.commit().await.unwrap();
}

async fn a_service_needs_no_session(fixture: SessionsFixture) {
    let service = service_caller();
    assert_eq!(fixture.check_error(0, &service).await, None);
    let acting = service.on_behalf_of("bob").unwrap();
    assert_eq!(fixture.check_error(0, &acting).await, None);
    assert!(fixture.hash("bob").await.is_empty());
}

pub async fn status_and_active_written_by_other_services_are_respected(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    let cases: [(&[&str], Option<ErrorCode>); 5] = [
        (&["status", "blocked"], Some(ErrorCode::SessionBlocked)),
        (&["status", "login"], None),
        (&["active", "false"], Some(ErrorCode::SessionBlocked)),
        (&["active", "true"], None),
        // An unknown status does not give full access.
        (&["status", "superuser"], None),
    ];
    for (written, answer) in cases {
        fixture.run_as_other_service("HSET", "alice", written).await;
        fixture.advance(SESSION_CACHE_TTL).await;
        assert_eq!(fixture.check_error(1, &alice).await, answer, "{written:?}");
    }
    let caller = fixture.nodes[1].check(alice.clone()).await.unwrap();
    assert!(caller.require_write_access().is_err());
    fixture.run_as_other_service("DEL", "alice", &[]).await;
    fixture.advance(SESSION_CACHE_TTL).await;
    assert_eq!(
        fixture.check_error(1, &alice).await,
        Some(ErrorCode::SessionExpired)
    );
}
