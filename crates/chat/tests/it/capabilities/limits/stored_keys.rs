//! The keys as other services read them.

use parlor_chat::limits::RateLimitAlgorithm::{Fixed, Gcra, Sliding};

use super::fixture::{LimitsFixture, WINDOW, check, check_cost, check_dry_run, id, limit, user};
use super::on_every_engine;

on_every_engine! {
    the_keys_have_the_documented_names;
    a_fixed_window_is_a_sorted_set_with_the_end_of_the_first;
    a_sliding_window_is_a_sorted_set_that_is_trimmed;
    a_steady_rate_is_the_time_at_which_all_is_free;
    a_counter_of_messages_is_a_number;
    an_address_is_limited_by_its_network;
}

async fn the_keys_have_the_documented_names(fixture: LimitsFixture) {
    let bare = |key: parlor_chat::keys::Key| key.as_str().replace(['{', '}'], "");
    for (algorithm, name) in [
        (Fixed, "rate_limit:x"),
        (Sliding, "sliding_limit:x"),
        (Gcra, "gcra:x"),
    ] {
        check(&fixture.nodes[0], &limit(algorithm, 2, WINDOW)).await;
        let key = fixture.key(algorithm, "x");
        assert_eq!(fixture.command::<u32>("EXISTS", &key, &[]).await, 1);
        assert_eq!(bare(key), name);
    }
    assert_eq!(
        bare(fixture.keys.message_counter(&user("u1"))),
        "rate:message:u1"
    );
}

/// The members of a sorted set with their scores.
async fn entries(fixture: &LimitsFixture, key: &parlor_chat::keys::Key) -> Vec<(String, u64)> {
    fixture
        .command("ZRANGE", key, &["0", "-1", "WITHSCORES"])
        .await
}

/// True if a member consists of a time, a random part and, for further entries of one request, a number.
fn is_member(member: &str, ms: u64) -> bool {
    let parts: Vec<_> = member.split('-').collect();
    let random = parts.get(1).is_some_and(|it| it.len() == 16);
    parts[0] == ms.to_string() && random && parts.len() <= 3
}

async fn a_fixed_window_is_a_sorted_set_with_the_end_of_the_first(fixture: LimitsFixture) {
    let (node, five) = (&fixture.nodes[0], limit(Fixed, 5, WINDOW));
    let key = fixture.key(Fixed, "x");
    let first = fixture.now().as_millis();
    check(node, &five).await;
    check(node, &five).await;
    fixture.assert_ttl(&key, WINDOW).await;
    fixture.advance_clocks_and_ttls(WINDOW / 2).await;
    check_cost(node, &five, 3).await;
    check(node, &five).await;
    fixture.assert_ttl(&key, WINDOW / 2).await;
    let entries = entries(&fixture, &key).await;
    let half = first + WINDOW / 2;
    let scores: Vec<_> = entries.iter().map(|it| it.1).collect();
    assert_eq!(scores, [first, first, half, half, half]);
    for (member, score) in &entries {
        assert!(is_member(member, *score), "{member}");
    }
    let kind: String = fixture.command("TYPE", &key, &[]).await;
    assert_eq!(kind, "zset");
    fixture.advance_clocks_and_ttls(WINDOW / 2 + 1).await;
    assert_eq!(fixture.command::<u32>("EXISTS", &key, &[]).await, 0);
}

async fn a_sliding_window_is_a_sorted_set_that_is_trimmed(fixture: LimitsFixture) {
    let (node, five) = (&fixture.nodes[0], limit(Sliding, 5, WINDOW));
    let key = fixture.key(Sliding, "x");
    let first = fixture.now().as_millis();
    check(node, &five).await;
    check(node, &five).await;
    fixture.advance_clocks_and_ttls(WINDOW / 2).await;
    check_cost(node, &five, 3).await;
    check(node, &five).await;
    fixture.assert_ttl(&key, WINDOW).await;
    let half = first + WINDOW / 2;
    let before = entries(&fixture, &key).await;
    let scores: Vec<_> = before.iter().map(|it| it.1).collect();
    assert_eq!(scores, [first, first, half, half, half]);
    for (member, score) in &before {
        assert!(is_member(member, *score), "{member}");
    }
    fixture.advance_clocks(WINDOW / 2);
    check_dry_run(node, &five, 5).await;
    let scores: Vec<_> = entries(&fixture, &key)
        .await
        .iter()
        .map(|it| it.1)
        .collect();
    assert_eq!(scores, [half, half, half]);
    let kind: String = fixture.command("TYPE", &key, &[]).await;
    assert_eq!(kind, "zset");
    fixture.advance_clocks_and_ttls(WINDOW + 1).await;
    assert_eq!(fixture.command::<u32>("EXISTS", &key, &[]).await, 0);
}

async fn a_steady_rate_is_the_time_at_which_all_is_free(fixture: LimitsFixture) {
    let (node, six) = (&fixture.nodes[0], limit(Gcra, 6, WINDOW));
    let key = fixture.key(Gcra, "x");
    let now = fixture.now().as_millis();
    check_cost(node, &six, 3).await;
    let value: String = fixture.command("GET", &key, &[]).await;
    assert_eq!(value, (now + WINDOW / 2).to_string());
    fixture.assert_ttl(&key, WINDOW / 2).await;
    for _ in 0..9 {
        check_cost(node, &six, 4).await;
    }
    assert_eq!(fixture.command::<String>("GET", &key, &[]).await, value);
    fixture.advance_clocks_and_ttls(WINDOW / 2 + 1).await;
    assert_eq!(fixture.command::<u32>("EXISTS", &key, &[]).await, 0);

    let seven = limit(Gcra, 7, WINDOW);
    let now = fixture.now().as_millis();
    check(node, &seven).await;
    let value: String = fixture.command("GET", &key, &[]).await;
    // The exact value is 857142.857142…
    assert_eq!(value, format!("{}.85714", now + WINDOW / 7));
    fixture.assert_ttl(&key, WINDOW / 7 + 1).await;
}

async fn a_counter_of_messages_is_a_number(fixture: LimitsFixture) {
    let alice = user("alice");
    let key = fixture.keys.message_counter(&alice);
    for expected in ["1", "2", "2"] {
        fixture.nodes[0].count_message(&alice, 2).await.unwrap();
        let value: String = fixture.command("GET", &key, &[]).await;
        assert_eq!(value, expected);
    }
    fixture.assert_ttl(&key, WINDOW).await;
    fixture.advance_clocks_and_ttls(WINDOW / 2).await;
    fixture.nodes[0].count_message(&alice, 3).await.unwrap();
    fixture.assert_ttl(&key, WINDOW / 2).await;
}

async fn an_address_is_limited_by_its_network(fixture: LimitsFixture) {
    let (node, one) = (&fixture.nodes[0], limit(Gcra, 1, WINDOW));
    for (address, free) in [
        ("2001:db8::1", true),
        ("2001:DB8:0::2", false),
        ("2001:db8:0:1::1", true),
    ] {
        let answer = node.check(&id(address), &one, 1, false).await.unwrap();
        assert_eq!(answer.allowed, free, "{address}");
    }
}
