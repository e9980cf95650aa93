//! Keys of a foreign type or with unexpected content.

use parlor_chat::api::error::Error;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::limits::RateLimitAlgorithm::{self, Fixed, Gcra, Sliding};

use super::fixture::{LimitsFixture, WINDOW, allowed, check, check_cost, id, limit, refused, user};
use super::on_every_engine;

on_every_engine! {
    a_key_of_another_type_is_named;
    an_unparsable_gcra_value_counts_as_empty;
    a_gcra_value_far_in_the_future_is_capped_at_one_window;
    a_fixed_window_without_ttl_gets_a_ttl;
    a_sliding_window_without_an_end_gets_one;
    a_smaller_limit_is_kept_at_once;
}

/// Asserts that the error names the key.
fn must_name(error: &Error, key: &parlor_chat::keys::Key) {
    assert_eq!(error.code(), ErrorCode::Internal);
    let cause = std::error::Error::source(error).unwrap().to_string();
    assert!(cause.contains(key.as_str()), "{cause}");
    assert!(cause.contains("delete it"), "{cause}");
}

async fn a_key_of_another_type_is_named(fixture: LimitsFixture) {
    let node = &fixture.nodes[0];
    for &algorithm in RateLimitAlgorithm::ALL {
        let key = fixture.key(algorithm, "x");
        let () = fixture.command("RPUSH", &key, &["one"]).await;
        for peek in [true, false] {
            let five = limit(algorithm, 5, WINDOW);
            let error = node.check(&id("x"), &five, 1, peek).await.unwrap_err();
            must_name(&error, &key);
        }
        let values: Vec<String> = fixture.command("LRANGE", &key, &["0", "-1"]).await;
        assert_eq!(values, ["one"]);
    }
    let alice = user("alice");
    let key = fixture.keys.message_counter(&alice);
    for garbage in ["", "many", "1.5", "0x10", "nan", " 1"] {
        let () = fixture.command("SET", &key, &[garbage]).await;
        must_name(&node.count_message(&alice, 5).await.unwrap_err(), &key);
        node.refund_message(&alice).await.unwrap();
        assert_eq!(fixture.command::<String>("GET", &key, &[]).await, garbage);
    }
    let () = fixture.command("DEL", &key, &[]).await;
    let () = fixture.command("RPUSH", &key, &["one"]).await;
    must_name(&node.count_message(&alice, 5).await.unwrap_err(), &key);
    must_name(&node.refund_message(&alice).await.unwrap_err(), &key);
}

async fn an_unparsable_gcra_value_counts_as_empty(fixture: LimitsFixture) {
    let two = limit(Gcra, 2, WINDOW);
    let key = fixture.key(Gcra, "x");
    for garbage in [
        "",
        "soon",
        "-1",
        "1e99",
        "nan",
        "12.5.6",
        "0x7fffffffffff",
        "1",
    ] {
        let () = fixture.command("SET", &key, &[garbage]).await;
        let answer = check(&fixture.nodes[0], &two).await;
        assert_eq!(answer, allowed(2, 1, WINDOW / 2), "{garbage}");
        fixture.assert_ttl(&key, WINDOW / 2).await;
    }
}

async fn a_gcra_value_far_in_the_future_is_capped_at_one_window(fixture: LimitsFixture) {
    let (node, two) = (&fixture.nodes[0], limit(Gcra, 2, WINDOW));
    let key = fixture.key(Gcra, "x");
    let far = "9".repeat(400);
    for value in ["9007199254740993", "99999999999999999999.5", &far] {
        let () = fixture.command("SET", &key, &[value]).await;
        assert_eq!(check(node, &two).await, refused(2, 0, WINDOW, WINDOW / 2));
        fixture.assert_ttl(&key, WINDOW).await;
        fixture.advance_clocks(WINDOW / 2);
        assert_eq!(check(node, &two).await, allowed(2, 0, WINDOW));
    }
}

async fn a_fixed_window_without_ttl_gets_a_ttl(fixture: LimitsFixture) {
    let (node, two) = (&fixture.nodes[0], limit(Fixed, 2, WINDOW));
    let key = fixture.key(Fixed, "x");
    let now = fixture.now().as_millis();
    let began = (now - 1_000).to_string();
    let () = fixture.command("ZADD", &key, &[&began, &began]).await;
    assert_eq!(check(node, &two).await, allowed(2, 0, WINDOW - 1_000));
    fixture.assert_ttl(&key, WINDOW - 1_000).await;
    let half = format!("{}.5", now - 1_000);
    for (score, left) in [("inf", WINDOW), (&half, WINDOW - 999)] {
        let () = fixture.command("DEL", &key, &[]).await;
        let () = fixture
            .command("ZADD", &key, &[score, "a", score, "b"])
            .await;
        assert_eq!(check(node, &two).await, refused(2, 0, left, left));
        fixture.assert_ttl(&key, left).await;
    }
    for over in ["-inf", "0", "1735689600"] {
        let () = fixture.command("DEL", &key, &[]).await;
        let () = fixture.command("ZADD", &key, &[over, "a", over, "b"]).await;
        assert_eq!(check(node, &two).await, allowed(2, 1, WINDOW));
        fixture.assert_ttl(&key, WINDOW).await;
    }
}

async fn a_sliding_window_without_an_end_gets_one(fixture: LimitsFixture) {
    let (node, two) = (&fixture.nodes[0], limit(Sliding, 2, WINDOW));
    let key = fixture.key(Sliding, "x");
    let half = format!("{}.5", fixture.now().as_millis() - 1_000);
    for (score, left) in [("inf", WINDOW), (&half, WINDOW - 999)] {
        let () = fixture.command("DEL", &key, &[]).await;
        let () = fixture
            .command("ZADD", &key, &[score, "a", score, "b"])
            .await;
        assert_eq!(check(node, &two).await, refused(2, 0, left, left));
        fixture.assert_ttl(&key, WINDOW).await;
    }
    let () = fixture.command("DEL", &key, &[]).await;
    let () = fixture
        .command("ZADD", &key, &["-inf", "a", "0", "b"])
        .await;
    assert_eq!(check(node, &two).await, allowed(2, 1, WINDOW));
    fixture.assert_ttl(&key, WINDOW).await;
}

async fn a_smaller_limit_is_kept_at_once(fixture: LimitsFixture) {
    let node = &fixture.nodes[0];
    for &algorithm in RateLimitAlgorithm::ALL {
        check_cost(node, &limit(algorithm, 100, WINDOW), 50).await;
        let ten = limit(algorithm, 10, WINDOW);
        let answer = check(node, &ten).await;
        assert_eq!(
            (answer.allowed, answer.remaining),
            match algorithm {
                // Half of the window is used, whatever the limit.
                Gcra => (true, 4),
                Fixed | Sliding => (false, 0),
            }
        );
    }
}
