//! A Cluster that grows.

use futures_util::future::join_all;
use parlor_store::{Store, StoreState};
use parlor_testkit::RedisCluster;
use redis::AsyncTypedCommands;

use crate::fixture::options;
use crate::outage::within_test_timeout;

/// Keys that are asked for at the same time: more than the failures that open the breaker.
const REQUESTS: usize = 20;

/// A key and its slot.
const KEY: (&str, u16) = ("foo", 12_182);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirection_to_a_new_primary_is_no_failure_of_the_store() {
    let mut cluster = RedisCluster::start().await;
    let store = Store::open(options(&cluster.url())).await.unwrap();
    let mut state = store.state();
    assert_eq!(*state.borrow_and_update(), StoreState::Up);
    let added = cluster.add_primary().await;
    cluster.move_empty_slot(KEY.1, added).await;
    let writes = (0..REQUESTS).map(|n| {
        let (mut store, pipelined) = (store.clone(), n % 2 == 0);
        async move {
            if pipelined {
                let mut pipe = redis::pipe();
                pipe.set(KEY.0, n).exec_async(&mut store).await
            } else {
                store.set(KEY.0, n).await
            }
        }
    });
    for written in within_test_timeout(join_all(writes)).await {
        written.unwrap();
    }
    assert!(!state.has_changed().unwrap(), "{:?}", *state.borrow());
}
