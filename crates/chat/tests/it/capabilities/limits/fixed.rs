//! Fixed windows, which begin with the first request.

use std::time::Duration;

use parlor_chat::limits::RateLimitAlgorithm::Fixed;

use super::fixture::{
    LimitsFixture, WINDOW, allowed, check, check_cost, check_dry_run, limit, refused,
};
use super::on_every_engine;
use crate::support::Fixture;

on_every_engine! {
    the_first_request_starts_the_fixed_window;
    a_cost_fits_as_a_whole_or_takes_nothing;
    a_look_takes_nothing;
}

pub async fn the_first_request_starts_the_fixed_window(fixture: LimitsFixture) {
    let (node, three) = (&fixture.nodes[0], limit(Fixed, 3, WINDOW));
    assert_eq!(check(node, &three).await, allowed(3, 2, WINDOW));
    fixture.advance_clocks(1_000);
    assert_eq!(check(node, &three).await, allowed(3, 1, WINDOW - 1_000));
    fixture.advance_clocks(WINDOW - 2_000);
    assert_eq!(check(node, &three).await, allowed(3, 0, 1_000));
    assert_eq!(check(node, &three).await, refused(3, 0, 1_000, 1_000));
    fixture.advance_clocks(999);
    assert_eq!(check(node, &three).await, refused(3, 0, 1, 1));
    fixture.advance_clocks(1);
    assert_eq!(check(node, &three).await, allowed(3, 2, WINDOW));
    // All requests of the old window ended at once, and the new window is complete.
    assert_eq!(check_cost(node, &three, 2).await, allowed(3, 0, WINDOW));
    fixture.advance_clocks(WINDOW - 1);
    assert_eq!(check(node, &three).await, refused(3, 0, 1, 1));
}

pub async fn a_cost_fits_as_a_whole_or_takes_nothing(fixture: LimitsFixture) {
    let (node, ten) = (&fixture.nodes[0], limit(Fixed, 10, WINDOW));
    assert_eq!(check_cost(node, &ten, 7).await, allowed(10, 3, WINDOW));
    assert_eq!(
        check_cost(node, &ten, 4).await,
        refused(10, 3, WINDOW, WINDOW)
    );
    assert_eq!(check_cost(node, &ten, 3).await, allowed(10, 0, WINDOW));
    fixture.advance_clocks(WINDOW);
    assert_eq!(check_cost(node, &ten, 10).await, allowed(10, 0, WINDOW));
    let hundred = limit(Fixed, 10_000, WINDOW);
    assert_eq!(
        check_cost(node, &hundred, 100).await,
        allowed(10_000, 9_890, WINDOW)
    );
}

async fn a_look_takes_nothing(fixture: LimitsFixture) {
    let (node, three) = (&fixture.nodes[0], limit(Fixed, 3, WINDOW));
    assert_eq!(check_dry_run(node, &three, 3).await, allowed(3, 3, 0));
    let key = fixture.key(Fixed, "x");
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

/// The two nodes have different clocks, like two processes.
#[tokio::test]
async fn a_clock_that_is_behind_does_not_move_the_window() {
    let fixture = LimitsFixture::redis(()).await;
    let two = limit(Fixed, 2, WINDOW);
    fixture.store.clock().advance(Duration::from_millis(10));
    check(&fixture.nodes[0], &two).await;
    assert_eq!(check(&fixture.nodes[1], &two).await, allowed(2, 0, WINDOW));
    fixture.advance_clocks(WINDOW - 1);
    assert_eq!(check(&fixture.nodes[0], &two).await, refused(2, 0, 1, 1));
    fixture.advance_clocks(1);
    assert_eq!(check(&fixture.nodes[0], &two).await, allowed(2, 1, WINDOW));
}
