//! Sliding windows, which end now.

use parlor_chat::limits::RateLimitAlgorithm::Sliding;

use super::fixture::{
    LimitsFixture, WINDOW, allowed, check, check_cost, check_dry_run, limit, refused,
};
use super::on_every_engine;

on_every_engine! {
    each_request_is_free_after_a_window_of_its_own;
    it_says_when_a_cost_fits;
    a_look_takes_nothing;
}

pub async fn each_request_is_free_after_a_window_of_its_own(fixture: LimitsFixture) {
    let (node, two) = (&fixture.nodes[0], limit(Sliding, 2, WINDOW));
    assert_eq!(check(node, &two).await, allowed(2, 1, WINDOW));
    fixture.advance_clocks(1_000);
    assert_eq!(check(node, &two).await, allowed(2, 0, WINDOW));
    let left = WINDOW - 1_000;
    assert_eq!(check(node, &two).await, refused(2, 0, WINDOW, left));
    fixture.advance_clocks(left - 1);
    assert_eq!(check(node, &two).await, refused(2, 0, 1_001, 1));
    fixture.advance_clocks(1);
    assert_eq!(check(node, &two).await, allowed(2, 0, WINDOW));
    assert_eq!(check(node, &two).await, refused(2, 0, WINDOW, 1_000));
    fixture.advance_clocks(1_000);
    assert_eq!(check(node, &two).await, allowed(2, 0, WINDOW));
}

async fn it_says_when_a_cost_fits(fixture: LimitsFixture) {
    let (node, ten) = (&fixture.nodes[0], limit(Sliding, 10, WINDOW));
    for cost in 1..5 {
        check_cost(node, &ten, cost).await;
        fixture.advance_clocks(100);
    }
    // Counted 400, 300, 200 and 100 ms ago: 1, 2, 3, 4.
    for (cost, ago) in [
        (1, 400),
        (2, 300),
        (3, 300),
        (4, 200),
        (6, 200),
        (7, 100),
        (10, 100),
    ] {
        let answer = refused(10, 0, WINDOW - 100, WINDOW - ago);
        assert_eq!(check_cost(node, &ten, cost).await, answer, "{cost}");
        assert_eq!(check_dry_run(node, &ten, cost).await, answer, "{cost}");
    }
    fixture.advance_clocks(WINDOW - 300);
    assert_eq!(check_cost(node, &ten, 4).await, refused(10, 3, 200, 100));
    assert_eq!(check_cost(node, &ten, 3).await, allowed(10, 0, WINDOW));
    fixture.advance_clocks(WINDOW);
    assert_eq!(check_cost(node, &ten, 10).await, allowed(10, 0, WINDOW));
}

async fn a_look_takes_nothing(fixture: LimitsFixture) {
    let (node, three) = (&fixture.nodes[0], limit(Sliding, 3, WINDOW));
    assert_eq!(check_dry_run(node, &three, 3).await, allowed(3, 3, 0));
    let key = fixture.key(Sliding, "x");
    assert_eq!(fixture.command::<u32>("EXISTS", &key, &[]).await, 0);
    check_cost(node, &three, 2).await;
    fixture.advance_clocks(5);
    for _ in 0..5 {
        assert_eq!(
            check_dry_run(node, &three, 1).await,
            allowed(3, 1, WINDOW - 5)
        );
        let over = refused(3, 1, WINDOW - 5, WINDOW - 5);
        assert_eq!(check_dry_run(node, &three, 2).await, over);
    }
    fixture.advance_clocks(WINDOW - 5);
    assert_eq!(check_dry_run(node, &three, 3).await, allowed(3, 3, 0));
}
