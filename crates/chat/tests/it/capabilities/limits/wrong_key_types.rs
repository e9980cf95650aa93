//! Keys of a foreign type or with unexpected content.

use parlor_chat::limits::RateLimitAlgorithm::{self, Fixed, Gcra, Sliding};

use super::fixture::{LimitsFixture, WINDOW, allowed, check, check_cost, id, limit, refused, user};
use super::on_every_engine;

on_every_engine! {
    a_key_of_another_type_stays_and_the_node_counts;
    an_unparsable_gcra_value_counts_as_empty;
    a_gcra_value_far_in_the_future_is_capped_at_one_window;
    a_fixed_window_without_ttl_gets_a_ttl;
    a_sliding_window_without_an_end_gets_one;
    a_smaller_limit_is_kept_at_once;
}

async fn a_key_of_another_type_stays_and_the_node_counts(fixture: LimitsFixture) {
    let node = &fixture.nodes[0];
    let three = |algorithm| limit(algorithm, 3, WINDOW);
    for (&algorithm, name) in RateLimitAlgorithm::ALL.iter().zip(["x", "y", "z"]) {
        let (key, on) = (fixture.key(algorithm, name), id(name));
        let () = fixture.command("RPUSH", &key, &["theirs"]).await;
        let check = async |cost, peek| {
            let decision = node
                .check(&on, &three(algorithm), cost, peek)
                .await
                .unwrap();
            (decision.allowed, decision.remaining)
        };
        assert_eq!(check(2, false).await, (true, 1));
        assert_eq!(check(2, false).await, (false, 1));
        assert_eq!(check(2, true).await, (false, 1));
        assert_eq!(check(1, true).await, (true, 1));
        assert_eq!(check(1, false).await, (true, 0));
        assert_eq!(check(1, false).await, (false, 0));
        let values: Vec<String> = fixture.command("LRANGE", &key, &["0", "-1"]).await;
        assert_eq!(values, ["theirs"]);
    }
    for (nth, garbage) in ["", "many", "1.5", "0x10", "nan", " 1"].iter().enumerate() {
        let who = user(&format!("u{nth}"));
        let key = fixture.keys.message_counter(&who);
        let () = fixture.command("SET", &key, &[garbage]).await;
        for allowed in [true, false] {
            let decision = node.count_message(&who, 1).await.unwrap();
            assert_eq!(decision.allowed, allowed, "{garbage}");
        }
        node.refund_message(&who).await.unwrap();
        assert_eq!(fixture.command::<String>("GET", &key, &[]).await, *garbage);
    }
    let alice = user("alice");
    let key = fixture.keys.message_counter(&alice);
    let () = fixture.command("RPUSH", &key, &["theirs"]).await;
    for allowed in [true, false] {
        let decision = node.count_message(&alice, 1).await.unwrap();
        assert_eq!(decision.allowed, allowed);
    }
    node.refund_message(&alice).await.unwrap();
    let values: Vec<String> = fixture.command("LRANGE", &key, &["0", "-1"]).await;
    assert_eq!(values, ["theirs"]);
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
