//! Hashes that other services write: blocks, sessions, profiles.

use std::collections::BTreeMap;
use std::time::Duration;

use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::sessions::SessionStatus;

use super::fixture::{SESSION_CACHE_TTL, SessionsFixture, code, user};
use super::on_every_engine;
use super::store_data_loss::lose_data;

const BLOCK: [&str; 6] = ["device_id", "x", "status", "blocked", "active", "false"];
const WEEK: Duration = Duration::from_secs(7 * 86_400);

on_every_engine! {
    a_block_of_another_service_survives_its_hash;
    a_service_lifts_its_own_block_and_a_new_login_does_not;
    a_service_that_uses_one_field_lifts_its_block_with_this_field;
    an_admin_lifts_the_block_of_another_service;
    many_blocks_of_another_service_are_lifted_at_once;
    a_block_made_in_parlor_is_restored_in_the_hash;
    a_logout_does_not_lift_the_block_of_another_service;
    a_session_of_another_service_is_adopted;
    a_session_without_times_or_status_is_adopted;
    a_session_of_another_service_grants_no_more_than_the_token;
    a_session_that_cannot_be_adopted_is_left_alone;
    a_login_in_another_service_replaces_the_row;
    a_logout_in_parlor_ends_the_session_of_another_service;
    a_profile_without_a_device_is_left_alone;
    fields_of_other_services_stay_in_a_session_hash;
    a_hash_without_ttl_keeps_none_and_its_session_expires;
}

/// Lets the cached results of all nodes expire.
async fn expire_cache(fixture: &SessionsFixture) {
    fixture.advance(SESSION_CACHE_TTL).await;
}

async fn check(fixture: &SessionsFixture, caller: &Caller) -> Option<ErrorCode> {
    expire_cache(fixture).await;
    let codes = [
        fixture.check_error(0, caller).await,
        fixture.check_error(1, caller).await,
    ];
    assert_eq!(codes[0], codes[1], "both nodes agree");
    codes[0]
}

async fn hset(fixture: &SessionsFixture, user: &str, fields: &[&str]) {
    fixture.run_as_other_service("HSET", user, fields).await;
}

/// Writes the session of a user as the other service does, `age` ago.
async fn log_in_elsewhere(
    fixture: &SessionsFixture,
    user: &str,
    age: Duration,
) -> BTreeMap<String, String> {
    let at = fixture.now().as_millis() - u64::try_from(age.as_millis()).unwrap();
    let at = at.to_string();
    let fields = [
        "device_id",
        "iPhone_12_ABC123",
        "login_time",
        &at,
        "last_seen",
        &at,
        "active",
        "true",
        "ip_address",
        "192.0.2.7",
    ];
    hset(fixture, user, &fields).await;
    fixture
        .run_as_other_service("EXPIRE", user, &["604800"])
        .await;
    fixture.hash(user).await
}

async fn ttl_ms(fixture: &SessionsFixture, user: &str) -> i64 {
    let mut cmd = redis::cmd("PTTL");
    cmd.arg(fixture.key(user));
    cmd.query_async(&mut fixture.store.clone()).await.unwrap()
}

async fn a_block_of_another_service_survives_its_hash(fixture: SessionsFixture) {
    hset(&fixture, "u12", &BLOCK).await;
    let begin = fixture.nodes[0].begin(&fixture.caller("u12"), None).await;
    assert_eq!(code(begin), Some(ErrorCode::SessionBlocked));
    hset(&fixture, "alice", &BLOCK).await;
    for name in ["u12", "alice"] {
        let caller = fixture.caller(name);
        assert_eq!(
            check(&fixture, &caller).await,
            Some(ErrorCode::SessionBlocked)
        );
        let expected = [
            ("active", "false"),
            ("device_id", "x"),
            ("status", "blocked"),
        ];
        let expected = expected.map(|(field, value)| (field.to_owned(), value.to_owned()));
        assert_eq!(fixture.hash(name).await, expected.into());
        assert_eq!(ttl_ms(&fixture, name).await, -1);
    }
    let alice = fixture.caller("alice");
    fixture.run_as_other_service("DEL", "alice", &[]).await;
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    assert_eq!(fixture.hash("alice").await["status"], "blocked");
    fixture.advance(WEEK + SESSION_CACHE_TTL).await;
    assert!(fixture.hash("alice").await.is_empty());
    let alice = fixture.caller("alice");
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    lose_data(&fixture).await;
    let begin = fixture.nodes[0].begin(&alice, None).await;
    assert_eq!(code(begin), Some(ErrorCode::SessionBlocked));
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
}

async fn a_service_lifts_its_own_block_and_a_new_login_does_not(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    hset(&fixture, "alice", &["active", "false"]).await;
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    hset(&fixture, "alice", &["active", "true"]).await;
    assert_eq!(check(&fixture, &alice).await, None);
    assert_eq!(fixture.hash("alice").await["status"], "login");

    hset(&fixture, "alice", &["status", "blocked", "active", "false"]).await;
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    let later = (fixture.now().as_millis() + 5).to_string();
    let login = [
        "device_id",
        "tablet",
        "login_time",
        &later,
        "status",
        "login",
        "active",
        "true",
    ];
    hset(&fixture, "alice", &login).await;
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    let hash = fixture.hash("alice").await;
    assert_eq!(
        (&*hash["status"], &*hash["active"], &*hash["device_id"]),
        ("blocked", "false", "tablet")
    );

    // The block is in the row, so an old hash of a store that is restored does not lift it.
    hset(&fixture, "alice", &["status", "login", "active", "true"]).await;
    fixture.raise_epoch().await;
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );

    hset(&fixture, "alice", &["active", "true"]).await;
    assert_eq!(check(&fixture, &alice).await, None);
    let hash = fixture.hash("alice").await;
    assert_eq!(
        (&*hash["status"], &*hash["active"], &*hash["device_id"]),
        ("login", "true", "tablet")
    );
}

async fn a_service_that_uses_one_field_lifts_its_block_with_this_field(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    hset(&fixture, "alice", &["status", "blocked"]).await;
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    hset(&fixture, "alice", &["status", "login"]).await;
    assert_eq!(check(&fixture, &alice).await, None);
}

async fn an_admin_lifts_the_block_of_another_service(fixture: SessionsFixture) {
    for has_checked in [false, true] {
        let name = if has_checked { "bob" } else { "alice" };
        let caller = fixture.caller(name);
        log_in_elsewhere(&fixture, name, Duration::ZERO).await;
        hset(&fixture, name, &["active", "false"]).await;
        if has_checked {
            assert_eq!(
                check(&fixture, &caller).await,
                Some(ErrorCode::SessionBlocked)
            );
        }
        let session = fixture.nodes[0].unblock(&user(name)).await.unwrap();
        assert_eq!(session.status, SessionStatus::Login);
        assert_eq!(check(&fixture, &caller).await, None);
        let hash = fixture.hash(name).await;
        assert_eq!((&*hash["status"], &*hash["active"]), ("login", "true"));
        assert_eq!(hash["device_id"], "iPhone_12_ABC123");
    }
}

async fn many_blocks_of_another_service_are_lifted_at_once(fixture: SessionsFixture) {
    for name in ["u1", "u2", "u3"] {
        log_in_elsewhere(&fixture, name, Duration::ZERO).await;
        hset(&fixture, name, &["active", "false"]).await;
        let caller = fixture.caller(name);
        assert_eq!(
            check(&fixture, &caller).await,
            Some(ErrorCode::SessionBlocked)
        );
    }
    // This block is made in Parlor.
    fixture.nodes[0].block(&user("u3"), None).await.unwrap();
    assert_eq!(fixture.nodes[1].count_adopted_blocks().await.unwrap(), 2);
    assert_eq!(fixture.nodes[1].unblock_adopted().await.unwrap(), 2);
    assert_eq!(fixture.nodes[1].count_adopted_blocks().await.unwrap(), 0);
    for (name, expected) in [
        ("u1", None),
        ("u2", None),
        ("u3", Some(ErrorCode::SessionBlocked)),
    ] {
        let caller = fixture.caller(name);
        assert_eq!(check(&fixture, &caller).await, expected, "{name}");
    }
}

async fn a_block_made_in_parlor_is_restored_in_the_hash(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    let changes: [&[&str]; 3] = [
        &["active", "true", "status", "login"],
        &["active", "true"],
        &["status", "login"],
    ];
    for written in changes {
        hset(&fixture, "alice", written).await;
        assert_eq!(
            check(&fixture, &alice).await,
            Some(ErrorCode::SessionBlocked)
        );
        let hash = fixture.hash("alice").await;
        assert_eq!(
            (&*hash["status"], &*hash["active"]),
            ("blocked", "false"),
            "{written:?}"
        );
    }
}

async fn a_logout_does_not_lift_the_block_of_another_service(fixture: SessionsFixture) {
    let _alice = fixture.caller_with_session("alice").await;
    hset(&fixture, "alice", &["active", "false"]).await;
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    fixture.advance(Duration::from_secs(2)).await;
    let alice = fixture.caller("alice");
    let begin = fixture.nodes[0].begin(&alice, None).await;
    assert_eq!(code(begin), Some(ErrorCode::SessionBlocked));
}

async fn a_session_of_another_service_is_adopted(fixture: SessionsFixture) {
    let mut before = log_in_elsewhere(&fixture, "u12", Duration::from_secs(3_600)).await;
    let caller = fixture.caller("u12");
    // Without a token of the user, the session is only read.
    let session = fixture.nodes[0].session(&user("u12")).await.unwrap();
    assert_eq!(
        (session.device_id.as_str(), session.status),
        ("iPhone_12_ABC123", SessionStatus::Login)
    );
    assert_eq!(fixture.hash("u12").await, before);
    assert_eq!(check(&fixture, &caller).await, None);
    let mut after = fixture.hash("u12").await;
    assert_eq!(after.remove("status").as_deref(), Some("login"));
    assert_eq!(
        after.remove("last_seen"),
        Some(fixture.now().as_millis().to_string())
    );
    before.remove("last_seen");
    assert_eq!(after, before);
    lose_user(&fixture, "u12").await;
    let session = fixture.nodes[1].session(&user("u12")).await.unwrap();
    assert_eq!(session.device_id.as_str(), "iPhone_12_ABC123");
    assert_eq!(
        fixture.hash("u12").await["login_time"],
        before["login_time"]
    );
    // A logout by the other service ends it.
    fixture.run_as_other_service("DEL", "u12", &[]).await;
    assert_eq!(
        check(&fixture, &caller).await,
        Some(ErrorCode::SessionExpired)
    );
    lose_user(&fixture, "u12").await;
    assert_eq!(
        check(&fixture, &caller).await,
        Some(ErrorCode::SessionExpired)
    );
}

/// Removes the keys of a user, as a store does that has lost its data.
async fn lose_user(fixture: &SessionsFixture, name: &str) {
    for key in [fixture.key(name), fixture.keys.session_check(&user(name))] {
        let mut cmd = redis::cmd("DEL");
        cmd.arg(key);
        cmd.exec_async(&mut fixture.store.clone()).await.unwrap();
    }
    fixture.raise_epoch().await;
}

async fn a_session_without_times_or_status_is_adopted(fixture: SessionsFixture) {
    let caller = fixture.caller("u12");
    hset(&fixture, "u12", &["device_id", "x", "active", "true"]).await;
    assert_eq!(check(&fixture, &caller).await, None);
    let now = fixture.now().as_millis().to_string();
    let hash = fixture.hash("u12").await;
    assert_eq!(
        (&*hash["status"], &hash["login_time"], &hash["last_seen"]),
        ("login", &now, &now)
    );
    let caller = fixture.nodes[0].check(caller).await.unwrap();
    caller.require_write_access().unwrap();
}

async fn a_session_of_another_service_grants_no_more_than_the_token(fixture: SessionsFixture) {
    log_in_elsewhere(&fixture, "visitor-1", Duration::ZERO).await;
    let visitor = Caller {
        anonymous: true,
        ..fixture.caller("visitor-1")
    };
    let checked = fixture.nodes[0].check(visitor).await.unwrap();
    assert_eq!(
        code(checked.require_write_access()),
        Some(ErrorCode::ReadOnlySession)
    );
    // A session that may only read restricts every token.
    log_in_elsewhere(&fixture, "u12", Duration::ZERO).await;
    hset(&fixture, "u12", &["status", "anonymous"]).await;
    let checked = fixture.nodes[0].check(fixture.caller("u12")).await.unwrap();
    assert_eq!(
        code(checked.require_write_access()),
        Some(ErrorCode::ReadOnlySession)
    );
}

async fn a_session_that_cannot_be_adopted_is_left_alone(fixture: SessionsFixture) {
    // The user has logged out after this session began.
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    let ended = log_in_elsewhere(&fixture, "alice", Duration::from_secs(60)).await;
    // This session was last used too long ago.
    let old = log_in_elsewhere(&fixture, "bob", WEEK + Duration::from_secs(1)).await;
    // This token is older than the logout.
    let early = fixture.caller("carol");
    fixture.nodes[0].end(&user("carol")).await.unwrap();
    fixture.advance(Duration::from_secs(2)).await;
    let newer = log_in_elsewhere(&fixture, "carol", Duration::ZERO).await;
    let callers = [fixture.caller("alice"), fixture.caller("bob"), early];
    for (caller, hash) in callers.iter().zip([ended, old, newer]) {
        let name = caller.require_user().unwrap().as_str();
        for _ in 0..2 {
            let refused = check(&fixture, caller).await;
            assert_eq!(refused, Some(ErrorCode::SessionExpired), "{name}");
        }
        assert_eq!(fixture.hash(name).await, hash, "{name}");
        assert!(ttl_ms(&fixture, name).await > 0, "{name}");
    }
    let later = fixture.caller("carol");
    assert_eq!(check(&fixture, &later).await, None);
}

async fn a_login_in_another_service_replaces_the_row(fixture: SessionsFixture) {
    let alice = fixture.caller_with_session("alice").await;
    fixture.advance(Duration::from_secs(5)).await;
    log_in_elsewhere(&fixture, "alice", Duration::ZERO).await;
    assert_eq!(check(&fixture, &alice).await, None);
    lose_user(&fixture, "alice").await;
    let session = fixture.nodes[0].session(&user("alice")).await.unwrap();
    assert_eq!(session.device_id.as_str(), "iPhone_12_ABC123");
}

async fn a_logout_in_parlor_ends_the_session_of_another_service(fixture: SessionsFixture) {
    log_in_elsewhere(&fixture, "alice", Duration::ZERO).await;
    let alice = fixture.caller("alice");
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    assert!(fixture.hash("alice").await.is_empty());
    let refused = fixture.nodes[1].check(alice.clone()).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SessionExpired);
    let text = refused.to_string();
    assert!(
        text.contains("new token") && !text.contains("POST"),
        "{text}"
    );
    let begin = fixture.nodes[1].begin(&alice, None).await.unwrap_err();
    assert_eq!(begin.to_string(), text);
}

async fn a_profile_without_a_device_is_left_alone(fixture: SessionsFixture) {
    hset(
        &fixture,
        "u14",
        &["name", "Ada", "mail", "ada@example.com", "active", "false"],
    )
    .await;
    let profile = fixture.hash("u14").await;
    let caller = fixture.caller("u14");
    assert_eq!(
        check(&fixture, &caller).await,
        Some(ErrorCode::SessionExpired)
    );
    fixture.nodes[0]
        .begin(&caller, Some("phone"))
        .await
        .unwrap();
    for _ in 0..2 {
        assert_eq!(check(&fixture, &caller).await, None);
        fixture.advance(Duration::from_secs(40)).await;
    }
    fixture.nodes[0].block(&user("u14"), None).await.unwrap();
    assert_eq!(
        check(&fixture, &caller).await,
        Some(ErrorCode::SessionBlocked)
    );
    let session = fixture.nodes[0].unblock(&user("u14")).await.unwrap();
    assert_eq!(session.device_id.as_str(), "phone");
    assert_eq!(check(&fixture, &caller).await, None);
    fixture.nodes[0].end(&user("u14")).await.unwrap();
    assert_eq!(
        check(&fixture, &caller).await,
        Some(ErrorCode::SessionExpired)
    );
    fixture.raise_epoch().await;
    assert_eq!(
        check(&fixture, &caller).await,
        Some(ErrorCode::SessionExpired)
    );
    assert_eq!(fixture.hash("u14").await, profile);
    assert_eq!(ttl_ms(&fixture, "u14").await, -1);
}

async fn fields_of_other_services_stay_in_a_session_hash(fixture: SessionsFixture) {
    log_in_elsewhere(&fixture, "alice", Duration::ZERO).await;
    hset(&fixture, "alice", &["theme", "dark"]).await;
    let alice = fixture.caller_with_session("alice").await;
    let hash = fixture.hash("alice").await;
    assert_eq!((&*hash["theme"], &*hash["device_id"]), ("dark", "phone"));
    fixture.nodes[0].block(&user("alice"), None).await.unwrap();
    fixture.raise_epoch().await;
    assert_eq!(
        check(&fixture, &alice).await,
        Some(ErrorCode::SessionBlocked)
    );
    assert_eq!(fixture.hash("alice").await["theme"], "dark");
    fixture.nodes[0].unblock(&user("alice")).await.unwrap();
    fixture.nodes[0].end(&user("alice")).await.unwrap();
    let rest = [("theme".to_owned(), "dark".to_owned())];
    assert_eq!(fixture.hash("alice").await, rest.into());
}

async fn a_hash_without_ttl_keeps_none_and_its_session_expires(fixture: SessionsFixture) {
    log_in_elsewhere(&fixture, "alice", Duration::ZERO).await;
    fixture.run_as_other_service("PERSIST", "alice", &[]).await;
    let alice = fixture.caller("alice");
    for _ in 0..2 {
        assert_eq!(check(&fixture, &alice).await, None);
        fixture.advance(Duration::from_secs(3_700)).await;
    }
    assert_eq!(ttl_ms(&fixture, "alice").await, -1);
    fixture.advance(WEEK).await;
    for _ in 0..2 {
        assert_eq!(
            check(&fixture, &alice).await,
            Some(ErrorCode::SessionExpired)
        );
    }
    assert_eq!(fixture.hash("alice").await["device_id"], "iPhone_12_ABC123");
}

/// With `keys.session = off`, the store holds nothing about sessions.
#[tokio::test]
async fn sessions_can_be_stored_in_rows_only() {
    for fixture in [
        SessionsFixture::with_rows_only(crate::support::backend::TestBackend::embedded().await)
            .await,
        SessionsFixture::with_rows_only(crate::support::backend::TestBackend::redis().await).await,
    ] {
        hset(&fixture, "bob", &BLOCK).await;
        let before = fixture.hash("bob").await;
        for name in ["alice", "bob"] {
            let caller = fixture.caller_with_session(name).await;
            assert_eq!(check(&fixture, &caller).await, None);
            fixture.nodes[0].block(&user(name), None).await.unwrap();
            assert_eq!(
                check(&fixture, &caller).await,
                Some(ErrorCode::SessionBlocked)
            );
            fixture.nodes[0].unblock(&user(name)).await.unwrap();
            fixture.nodes[1].recheck_all().await.unwrap();
            assert_eq!(check(&fixture, &caller).await, None);
            fixture.nodes[0].end(&user(name)).await.unwrap();
            assert_eq!(
                check(&fixture, &caller).await,
                Some(ErrorCode::SessionExpired)
            );
        }
        assert!(fixture.hash("alice").await.is_empty());
        assert_eq!(fixture.hash("bob").await, before);
    }
}
