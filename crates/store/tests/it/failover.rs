//! A primary dies or hangs under load, and the load continues without help.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parlor_store::{BusEvent, BusSubscription, LuaScript, Store};
use parlor_testkit::{RedisCluster, SentinelSet, eventually};
use redis::AsyncTypedCommands;
use tokio::task::JoinHandle;

use crate::bus::next;
use crate::fixture::{default_timeout_options, options};
use crate::outage::within_test_timeout;

static ADD: LuaScript = LuaScript::new("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])");

/// Writers that never stop: plain commands, scripts and pipelines, each on its own key.
struct WriteLoad {
    done: Arc<[AtomicU64; 12]>,
    /// Duration of the longest call in ms, which is printed and not asserted.
    slowest_call_ms: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl WriteLoad {
    fn start(store: &Store) -> Self {
        let done: Arc<[AtomicU64; 12]> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let slowest_call_ms = Arc::new(AtomicU64::new(0));
        let tasks = (0..done.len()).map(|writer| {
            let longest = Arc::clone(&slowest_call_ms);
            let (mut store, done, stop) = (store.clone(), Arc::clone(&done), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("stream:{writer}");
                    let start = Instant::now();
                    let reply = match writer % 3 {
                        0 => within_test_timeout(store.incr(&key, 1)).await.map(drop),
                        1 => within_test_timeout(ADD.keys(&key).arg(1).run::<i64>(&store))
                            .await
                            .map(drop),
                        _ => {
                            within_test_timeout(
                                redis::pipe().incr(&key, 1).get(&key).exec_async(&mut store),
                            )
                            .await
                        }
                    };
                    let took = u64::try_from(start.elapsed().as_millis()).unwrap();
                    longest.fetch_max(took, Ordering::Relaxed);
                    match reply {
                        Ok(()) => drop(done[writer].fetch_add(1, Ordering::Relaxed)),
                        // Like a real caller, waits a moment after a failed request.
                        Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
                    }
                }
            })
        });
        Self {
            tasks: tasks.collect(),
            done,
            slowest_call_ms,
            stop,
        }
    }

    /// Waits until every writer has succeeded again.
    async fn wait_for_progress(&self) {
        let before = self
            .done
            .each_ref()
            .map(|done| done.load(Ordering::Relaxed));
        eventually("every writer makes progress", async || {
            self.done
                .iter()
                .zip(before)
                .all(|(done, before)| done.load(Ordering::Relaxed) > before)
        })
        .await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        println!(
            "the longest call took {} ms",
            self.slowest_call_ms.load(Ordering::Relaxed)
        );
    }
}

/// Waits until the subscriber has got `MaybeMissed`, then publishes until it receives messages again.
async fn wait_for_messages_after_gap(
    store: &Store,
    channel: &str,
    subscription: &mut BusSubscription,
) {
    while next(subscription).await != BusEvent::MaybeMissed {}
    eventually("the subscriber receives messages again", async || {
        let _ = within_test_timeout(store.bus().publish_sharded(channel, "again")).await;
        matches!(subscription.try_next(), Some(BusEvent::Message { .. }))
    })
    .await;
}

/// Opens a store with the default timeout, which may be too short for servers that have just started.
async fn open(url: &str) -> Store {
    eventually("the store is opened", async || {
        Store::open(default_timeout_options(url)).await.map(Some)
    })
    .await
}

async fn subscribe(store: &Store, channel: &str) -> BusSubscription {
    eventually("the subscription is confirmed", async || {
        let listens = store.bus().subscribe_sharded(channel).await;
        listens.map(Some)
    })
    .await
}

async fn survives_a_sentinel_failover(hang: bool) {
    let mut servers = SentinelSet::start().await;
    let store = open(&servers.url()).await;
    let mut subscription = subscribe(&store, "c").await;
    let before = *store.epoch().borrow();
    let stream = WriteLoad::start(&store);
    stream.wait_for_progress().await;
    let old = servers.primary_port().await;
    if hang {
        servers.node(old).pause();
    } else {
        servers.kill9_primary().await;
    }
    eventually("the sentinels choose another primary", async || {
        servers.primary_port().await != old
    })
    .await;
    stream.wait_for_progress().await;
    stream.wait_for_progress().await;
    assert!(
        *store.epoch().borrow() > before,
        "the epoch rises after the failover"
    );
    wait_for_messages_after_gap(&store, "c", &mut subscription).await;
    stream.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_sentinel_primary_is_replaced_under_a_stream_of_commands() {
    survives_a_sentinel_failover(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_continue_after_a_sentinel_primary_hangs() {
    survives_a_sentinel_failover(true).await;
}

async fn survives_a_cluster_failover(hang: bool) {
    let mut cluster = RedisCluster::options().fast_failover().start().await;
    let store = open(&cluster.url()).await;
    let mut subscriptions = Vec::new();
    for number in 0..12 {
        let channel = format!("c{number}");
        subscriptions.push((subscribe(&store, &channel).await, channel));
    }
    let before = *store.epoch().borrow();
    let stream = WriteLoad::start(&store);
    stream.wait_for_progress().await;
    let dead = cluster.primaries().await[1];
    if hang {
        cluster.node(dead).pause();
    } else {
        cluster.node(dead).kill9();
    }
    eventually("the replica takes over", async || {
        let first = cluster
            .ports()
            .into_iter()
            .find(|port| *port != dead)
            .unwrap();
        primary_ports(cluster.node(first))
            .await
            .is_some_and(|owners| owners.len() == 3 && !owners.contains(&dead))
    })
    .await;
    stream.wait_for_progress().await;
    stream.wait_for_progress().await;
    eventually("the epoch rises after the failover", async || {
        *store.epoch().borrow() > before
    })
    .await;
    let mut moved = 0;
    for (mut subscription, channel) in subscriptions {
        let is_moved = was_on_dead_primary(&mut cluster, dead, &channel).await;
        if is_moved {
            wait_for_messages_after_gap(&store, &channel, &mut subscription).await;
            moved += 1;
        }
    }
    assert!(moved > 0, "some channels were on the dead primary");
    stream.stop().await;
}

/// Ports of the primaries as one node sees them.
async fn primary_ports(node: &parlor_testkit::Redis) -> Option<Vec<u16>> {
    let mut con = parlor_testkit::connect_with_test_timeout(&node.client())
        .await
        .ok()?;
    let slots: Vec<Vec<redis::Value>> = redis::cmd("CLUSTER")
        .arg("SLOTS")
        .query_async(&mut con)
        .await
        .ok()?;
    let port = |range: &Vec<redis::Value>| -> Option<u16> {
        let primary: Vec<redis::Value> = redis::from_redis_value(range.get(2)?.clone()).ok()?;
        redis::from_redis_value(primary.get(1)?.clone()).ok()
    };
    slots.iter().map(port).collect()
}

/// Whether the slot of a channel is in the middle third, which the dead primary owned.
async fn was_on_dead_primary(cluster: &mut RedisCluster, dead: u16, channel: &str) -> bool {
    let alive = cluster
        .ports()
        .into_iter()
        .find(|port| *port != dead)
        .unwrap();
    let mut con = cluster.node(alive).connection().await;
    let slot: u16 = redis::cmd("CLUSTER")
        .arg("KEYSLOT")
        .arg(channel)
        .query_async(&mut con)
        .await
        .unwrap();
    (5_600..10_800).contains(&slot)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_cluster_primary_is_replaced_under_a_stream_of_commands() {
    survives_a_cluster_failover(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_cluster_primary_is_replaced_under_a_stream_of_commands() {
    survives_a_cluster_failover(true).await;
}

/// Moves one slot with all its keys from one primary to another, as an operator would.
async fn move_slot(cluster: &mut RedisCluster, slot: u16, from: u16, to: u16) {
    let mut ids = Vec::new();
    for port in [from, to] {
        let mut con = cluster.node(port).connection().await;
        let id: String = redis::cmd("CLUSTER")
            .arg("MYID")
            .query_async(&mut con)
            .await
            .unwrap();
        ids.push((con, id));
    }
    let (mut target, target_id) = ids.pop().unwrap();
    let (mut source, source_id) = ids.pop().unwrap();
    let set = |state: &str, id: &str| {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("SETSLOT").arg(slot).arg(state).arg(id);
        cmd
    };
    set("IMPORTING", &source_id)
        .exec_async(&mut target)
        .await
        .unwrap();
    set("MIGRATING", &target_id)
        .exec_async(&mut source)
        .await
        .unwrap();
    loop {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("GETKEYSINSLOT").arg(slot).arg(10);
        let keys: Vec<String> = cmd.query_async(&mut source).await.unwrap();
        if keys.is_empty() {
            break;
        }
        let mut cmd = redis::cmd("MIGRATE");
        cmd.arg("127.0.0.1")
            .arg(to)
            .arg("")
            .arg(0)
            .arg(30_000)
            .arg("KEYS")
            .arg(keys);
        cmd.exec_async(&mut source).await.unwrap();
    }
    set("NODE", &target_id)
        .exec_async(&mut target)
        .await
        .unwrap();
    set("NODE", &target_id)
        .exec_async(&mut source)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moving_slot_loses_and_repeats_no_command() {
    let mut cluster = RedisCluster::start().await;
    let store = Store::open(options(&cluster.url())).await.unwrap();
    let mut con = cluster.node(cluster.ports()[0]).connection().await;
    let slot: u16 = redis::cmd("CLUSTER")
        .arg("KEYSLOT")
        .arg("x")
        .query_async(&mut con)
        .await
        .unwrap();
    let mut subscription = store.bus().subscribe_sharded("{x}channel").await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (mut store, stop) = (store.clone(), Arc::clone(&stop));
        async move {
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) {
                written += 1;
                assert_eq!(
                    within_test_timeout(store.incr("{x}plain", 1))
                        .await
                        .unwrap(),
                    written
                );
                let mut pipe = redis::pipe();
                pipe.incr("{x}piped", 1).incr("elsewhere", 1);
                pipe.add_command(ADD.keys("{x}scripted").arg(1).cmd());
                let counts: Vec<isize> = within_test_timeout(pipe.query_async(&mut store))
                    .await
                    .unwrap();
                assert_eq!(counts, [written; 3]);
            }
            written
        }
    });
    let primaries = cluster.primaries().await;
    let owner = usize::from(slot) * 3 / 16_384;
    let (from, to) = (primaries[owner], primaries[(owner + 1) % 3]);
    move_slot(&mut cluster, slot, from, to).await;
    wait_for_messages_after_gap(&store, "{x}channel", &mut subscription).await;
    move_slot(&mut cluster, slot, to, from).await;
    wait_for_messages_after_gap(&store, "{x}channel", &mut subscription).await;
    stop.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();
    assert!(written > 0);
}
