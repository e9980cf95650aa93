//! A steady rate, with a burst after a pause.

use parlor_chat::limits::RateLimitAlgorithm::Gcra;

use super::fixture::{
    LimitsFixture, WINDOW, allowed, check, check_cost, check_dry_run, limit, refused,
};
use super::on_every_engine;

on_every_engine! {
    a_burst_and_then_a_steady_rate;
    a_pause_gives_back_as_much_as_it_is_long;
    a_rate_that_no_millisecond_divides_is_exact;
    a_look_takes_nothing;
}

/// Time per request of a limit of ten.
const EACH: u64 = WINDOW / 10;

pub async fn a_burst_and_then_a_steady_rate(fixture: LimitsFixture) {
    let (node, ten) = (&fixture.nodes[0], limit(Gcra, 10, WINDOW));
    for nth in 1..=10 {
        let answer = allowed(10, 10 - nth, EACH * u64::from(nth));
        assert_eq!(check(node, &ten).await, answer);
    }
    assert_eq!(check(node, &ten).await, refused(10, 0, WINDOW, EACH));
    for _ in 0..20 {
        fixture.advance_clocks(EACH - 1);
        assert_eq!(
            check(node, &ten).await,
            refused(10, 0, WINDOW - EACH + 1, 1)
        );
        fixture.advance_clocks(1);
        assert_eq!(check(node, &ten).await, allowed(10, 0, WINDOW));
        assert_eq!(check(node, &ten).await, refused(10, 0, WINDOW, EACH));
    }
}

pub async fn a_pause_gives_back_as_much_as_it_is_long(fixture: LimitsFixture) {
    let (node, ten) = (&fixture.nodes[0], limit(Gcra, 10, WINDOW));
    assert_eq!(check_cost(node, &ten, 10).await, allowed(10, 0, WINDOW));
    fixture.advance_clocks(4 * EACH - 1);
    let answer = refused(10, 3, 6 * EACH + 1, 1);
    assert_eq!(check_cost(node, &ten, 4).await, answer);
    fixture.advance_clocks(1);
    assert_eq!(check_cost(node, &ten, 4).await, allowed(10, 0, WINDOW));
    fixture.advance_clocks(5 * WINDOW);
    assert_eq!(check_cost(node, &ten, 10).await, allowed(10, 0, WINDOW));
    assert_eq!(
        check_cost(node, &ten, 7).await,
        refused(10, 0, WINDOW, 7 * EACH)
    );
}

async fn a_rate_that_no_millisecond_divides_is_exact(fixture: LimitsFixture) {
    // On a server a shorter window would expire in real time.
    for (requests, window) in [
        (7, WINDOW),
        (9_999, 100 * WINDOW),
        (9_973, 100 * WINDOW + 1),
    ] {
        let node = &fixture.nodes[0];
        let rate = limit(Gcra, requests, window);
        let on = super::fixture::id(&format!("rate-{requests}"));
        let ask = async |cost| node.check(&on, &rate, cost, false).await.unwrap();
        let mut left = requests;
        while left > 0 {
            let cost = left.min(100);
            assert!(ask(cost).await.allowed);
            left -= cost;
        }
        assert!(!ask(1).await.allowed);
        // Exactly as many requests as the rate allows in this time.
        let each = window.div_ceil(u64::from(requests));
        let (mut passed, mut admitted) = (0, 0);
        for step in 0..200 {
            let by = each / 3 + step;
            fixture.advance_clocks(by);
            passed += by;
            admitted += u64::from(ask(1).await.allowed);
            assert!(admitted <= passed * u64::from(requests) / window);
        }
        let answer = ask(100.min(requests)).await;
        assert_eq!(
            admitted,
            passed * u64::from(requests) / window,
            "{answer:?}"
        );
    }
}

async fn a_look_takes_nothing(fixture: LimitsFixture) {
    let (node, ten) = (&fixture.nodes[0], limit(Gcra, 10, WINDOW));
    assert_eq!(check_dry_run(node, &ten, 10).await, allowed(10, 10, 0));
    let key = fixture.key(Gcra, "x");
    assert_eq!(fixture.command::<u32>("EXISTS", &key, &[]).await, 0);
    check_cost(node, &ten, 8).await;
    fixture.advance_clocks(5);
    for _ in 0..5 {
        assert_eq!(
            check_dry_run(node, &ten, 2).await,
            allowed(10, 2, 8 * EACH - 5)
        );
        let over = refused(10, 2, 8 * EACH - 5, EACH - 5);
        assert_eq!(check_dry_run(node, &ten, 3).await, over);
    }
}
