//! Both throttles with a manual clock.

use super::*;

fn passes(throttle: &Throttle<u8>, key: u8, now: u64) -> bool {
    let permit = throttle.try_acquire(key, Timestamp(now));
    permit.map(ThrottlePermit::commit).is_some()
}

#[test]
fn a_full_throttle_evicts_expired_keys_or_lets_events_through() {
    let throttle = Throttle::new(Duration::from_secs(2), 3);
    for (key, now) in [(0, 0), (1, 1_000), (2, 1_000)] {
        assert!(passes(&throttle, key, now));
    }
    for _ in 0..2 {
        assert!(passes(&throttle, 3, 1_000), "no entry was made");
    }
    assert_eq!(throttle.len(), 3);
    assert!(!passes(&throttle, 2, 1_000), "an entry suppresses events");
    assert!(passes(&throttle, 3, 2_000), "the first expired");
    assert!(!passes(&throttle, 3, 2_000), "and made room");
    throttle.remove_expired(Timestamp(2_999));
    assert_eq!(throttle.len(), 3);
    throttle.remove_expired(Timestamp(3_000));
    assert_eq!(throttle.len(), 1);
    throttle.remove_expired(Timestamp(4_000));
    assert_eq!(throttle.len(), 0);
    for key in 0..3 {
        assert!(passes(&throttle, key, 4_000));
    }
    throttle.reset(&1);
    assert_eq!(throttle.len(), 2, "a reset frees the entry");
}

#[test]
fn dropping_a_permit_does_not_release_a_later_one() {
    let throttle = Throttle::new(Duration::from_secs(2), 3);
    let acquire = || throttle.try_acquire(0, Timestamp(0));
    let first = acquire().expect("the first");
    assert!(acquire().is_none());
    drop(first);
    let second = acquire().expect("the first was given back");
    throttle.reset(&0);
    let third = acquire().expect("cleared");
    drop(second);
    assert!(acquire().is_none(), "the third is still there");
    third.commit();
    assert!(acquire().is_none());
}

#[test]
fn an_event_during_a_reset_does_not_hold_the_next_one_back() {
    let throttle = Throttle::new(Duration::from_secs(2), 3);
    assert!(passes(&throttle, 0, 0));
    let reset = throttle.reset_now_and_on_drop(0);
    assert!(passes(&throttle, 0, 0), "the work is running");
    assert!(!passes(&throttle, 0, 0));
    drop(reset);
    assert!(passes(&throttle, 0, 0), "it may have undone the event");
}

#[test]
fn a_clock_that_jumps_back_does_not_suppress_events() {
    let throttle = Throttle::new(Duration::from_secs(2), 3);
    assert!(passes(&throttle, 0, 10_000));
    assert!(passes(&throttle, 0, 9_000));
    assert!(!passes(&throttle, 0, 9_001));
}

#[test]
fn a_newest_throttle_passes_the_first_value_at_once_and_the_greatest_later() {
    let throttle = NewestThrottle::new(Duration::from_secs(1), 10);
    assert_eq!(throttle.submit(&'a', 1, Timestamp(0)), Some(1));
    assert_eq!(throttle.submit(&'b', 1, Timestamp(500)), Some(1));
    assert_eq!(throttle.submit(&'a', 3, Timestamp(600)), None);
    assert_eq!(throttle.submit(&'a', 2, Timestamp(999)), None);
    assert_eq!(throttle.take_due(Timestamp(999)), []);
    assert_eq!(throttle.submit(&'a', 1, Timestamp(1_000)), None);
    assert_eq!(throttle.take_due(Timestamp(1_000)), [('a', 3)]);
    assert_eq!(throttle.submit(&'a', 4, Timestamp(1_500)), None);
    assert_eq!(throttle.take_due(Timestamp(2_000)), [('a', 4)]);
    assert_eq!(throttle.take_due(Timestamp(3_000)), []);
    assert_eq!(throttle.throttle.len(), 0);
    assert_eq!(throttle.submit(&'a', 5, Timestamp(3_000)), Some(5));
}
