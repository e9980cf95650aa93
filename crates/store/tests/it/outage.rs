//! One server that stops, restarts, loses its data, is full or becomes a replica.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parlor_store::{
    BusEvent, LuaScript, Store, StoreErrorClass, StoreOptions, StoreState, classify_error,
};
use parlor_testkit::{Redis, eventually};
use redis::{AsyncTypedCommands, RedisResult};

use crate::bus::{next, payload};
use crate::fixture::{TEST_TIMEOUT, options};

static ADD: LuaScript = LuaScript::new("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])");

/// Fails if a call does not end.
pub async fn within_test_timeout<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, call)
        .await
        .expect("a call ends by its own timeout")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_server_costs_one_timeout_and_later_calls_fail_at_once() {
    let mut server = Redis::start().await;
    let short = StoreOptions {
        request_timeout: Duration::from_millis(200),
        ..options(&server.url())
    };
    let store = Store::open(short).await.unwrap();
    server.pause();
    let error = within_test_timeout(store.clone().get("k"))
        .await
        .unwrap_err();
    assert_eq!(classify_error(&error), StoreErrorClass::Unavailable);
    eventually("the breaker rejects calls at once", async || {
        let error = within_test_timeout(store.clone().set("k", "v"))
            .await
            .unwrap_err();
        error.to_string().contains("store unavailable")
    })
    .await;
    let mut state = store.state();
    within_test_timeout(state.wait_for(|state| matches!(state, StoreState::Down { .. })))
        .await
        .unwrap();
    server.resume();
    eventually("calls work again", async || {
        within_test_timeout(store.clone().set("k", "v")).await
    })
    .await;
    within_test_timeout(state.wait_for(|state| *state == StoreState::Up))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_server_gets_its_scripts_and_a_new_epoch_and_the_bus_reports_a_gap() {
    let mut server = Redis::start().await;
    let with_scripts = StoreOptions {
        scripts: vec![&ADD],
        ..options(&server.url())
    };
    let store = Store::open(with_scripts).await.unwrap();
    let mut subscription = store.bus().subscribe("c").await.unwrap();
    let mut epochs = store.epoch();
    let before = *epochs.borrow_and_update();
    server.restart_empty().await;
    eventually("the script runs again", async || {
        within_test_timeout(ADD.keys("sum").arg(1).run::<i64>(&store))
            .await
            .map(drop)
    })
    .await;
    assert!(
        *epochs.borrow() > before,
        "the epoch rises before the first call succeeds"
    );
    assert_eq!(next(&mut subscription).await, BusEvent::MaybeMissed);
    store.bus().publish("c", "after").await.unwrap();
    assert_eq!(payload(&mut subscription).await, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_raise_the_epoch_once_for_one_restart() {
    let mut server = Redis::options().durable().start().await;
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(Store::open(options(&server.url())).await.unwrap());
    }
    let epoch = |store: &Store| *store.epoch().borrow();
    let before = epoch(&stores[0]);
    assert!(stores.iter().all(|store| epoch(store) == before));
    server.restart().await;
    for store in &stores {
        eventually("the store answers", async || {
            within_test_timeout(store.clone().get("k")).await.map(drop)
        })
        .await;
    }
    let after = epoch(&stores[0]);
    assert!(after > before);
    assert!(
        stores.iter().all(|store| epoch(store) == after),
        "one change, one epoch"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_store_gets_a_new_epoch() {
    let server = Redis::start().await;
    let store = Store::open(options(&server.url())).await.unwrap();
    let before = *store.epoch().borrow();
    redis::cmd("FLUSHALL")
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
    within_test_timeout(store.epoch().wait_for(|epoch| *epoch > before))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_rejects_writes_and_still_reads() {
    let server = Redis::start().await;
    let store = Store::open(options(&server.url())).await.unwrap();
    store.clone().set("k", "v").await.unwrap();
    let limit = async |bytes: &str| {
        let mut cmd = redis::cmd("CONFIG");
        cmd.arg("SET")
            .arg("maxmemory")
            .arg(bytes)
            .exec_async(&mut server.connection().await)
            .await
            .unwrap();
    };
    limit("1").await;
    let error = store.clone().set("k", "w").await.unwrap_err();
    assert_eq!(classify_error(&error), StoreErrorClass::Full, "{error}");
    let mut pipe = redis::pipe();
    let error = pipe
        .atomic()
        .set("k", "w")
        .exec_async(&mut store.clone())
        .await
        .unwrap_err();
    assert_eq!(classify_error(&error), StoreErrorClass::Full, "{error}");
    // A plain pipeline, also with a script, and also beside a command that is rejected for another reason.
    static WRITE: LuaScript = LuaScript::new("write", "return redis.call('SET', KEYS[1], '1')");
    let script = WRITE.keys("k").cmd();
    let wrong_type = redis::cmd("LLEN").arg("k").take();
    let write = redis::cmd("SET").arg("k").arg("w").take();
    for commands in [vec![write.clone()], vec![script], vec![wrong_type, write]] {
        let mut pipe = redis::pipe();
        for command in commands {
            pipe.add_command(command);
        }
        let error = pipe.exec_async(&mut store.clone()).await.unwrap_err();
        assert_eq!(classify_error(&error), StoreErrorClass::Full, "{error}");
    }
    let error = store.check_writable().await.unwrap_err();
    assert_eq!(classify_error(&error), StoreErrorClass::Full, "{error}");
    assert_eq!(store.clone().get("k").await.unwrap().as_deref(), Some("v"));
    limit("0").await;
    store.clone().set("k", "w").await.unwrap();
    store.check_writable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_primary_is_discarded_and_its_return_raises_the_epoch() {
    let (server, other) = (Redis::start().await, Redis::start().await);
    let store = Store::open(options(&server.url())).await.unwrap();
    let before = *store.epoch().borrow();
    let mut admin = server.connection().await;
    let replica_of =
        async |host: &str, port: &str, admin: &mut redis::aio::MultiplexedConnection| {
            redis::cmd("REPLICAOF")
                .arg(host)
                .arg(port)
                .exec_async(admin)
                .await
                .unwrap();
        };
    replica_of("127.0.0.1", &other.port().to_string(), &mut admin).await;
    eventually("writes fail with `store unavailable`", async || {
        let error = within_test_timeout(store.clone().set("k", "v"))
            .await
            .unwrap_err();
        error.to_string().contains("store unavailable")
    })
    .await;
    replica_of("NO", "ONE", &mut admin).await;
    eventually("writes work again", async || {
        within_test_timeout(store.clone().set("k", "v")).await
    })
    .await;
    assert!(*store.epoch().borrow() > before);
}

/// The way to send a write.
#[derive(Debug, Clone, Copy)]
enum WriteMode {
    Command,
    Pipeline,
    Transaction,
}

impl WriteMode {
    async fn count(self, store: &Store, key: &str) -> RedisResult<()> {
        let mut pipe = redis::pipe();
        pipe.incr(key, 1);
        let mut store = store.clone();
        match self {
            Self::Command => store.incr(key, 1).await.map(drop),
            Self::Pipeline => pipe.exec_async(&mut store).await,
            Self::Transaction => pipe.atomic().exec_async(&mut store).await,
        }
    }
}

/// Writes without a pause while the connections are cut repeatedly.
async fn writes_under_cuts(server: &Redis, store: &Store, way: WriteMode) {
    let key = format!("{way:?}");
    let mut admin = server.connection().await;
    let (done, failed, stop) = (AtomicI64::new(0), AtomicI64::new(0), AtomicBool::new(false));
    let stream = async {
        while !stop.load(Ordering::Relaxed) {
            let reply = within_test_timeout(way.count(store, &key)).await;
            let counter = if reply.is_ok() { &done } else { &failed };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    let killer = async {
        for _ in 0..8 {
            let before = done.load(Ordering::Relaxed);
            eventually("writes make progress", async || {
                done.load(Ordering::Relaxed) > before + 20
            })
            .await;
            let mut cmd = redis::cmd("CLIENT");
            cmd.arg("KILL").arg("TYPE").arg("normal");
            cmd.arg("SKIPME").arg("yes");
            let _: i64 = cmd.query_async(&mut admin.clone()).await.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(stream, killer);
    let (done, failed) = (done.into_inner(), failed.into_inner());
    let count: i64 = admin.get(&key).await.unwrap().unwrap().parse().unwrap();
    assert!(
        done <= count && count <= done + failed,
        "{key}: {done} <= {count} <= {done} + {failed}"
    );
    assert!(
        failed > 0,
        "{key}: a lost connection fails the requests in flight"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_reply_was_lost_is_not_retried() {
    let server = Redis::start().await;
    let store = Store::open(options(&server.url())).await.unwrap();
    for way in [
        WriteMode::Command,
        WriteMode::Pipeline,
        WriteMode::Transaction,
    ] {
        writes_under_cuts(&server, &store, way).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_store_recovers_by_heartbeat() {
    let mut server = Redis::start().await;
    let short = StoreOptions {
        request_timeout: Duration::from_millis(50),
        ..options(&server.url())
    };
    let store = Store::open(short).await.unwrap();
    let mut state = store.state();
    server.pause();
    eventually("the breaker opens", async || {
        let _ = within_test_timeout(store.clone().get("k")).await;
        *state.borrow() != StoreState::Up
    })
    .await;
    server.resume();
    within_test_timeout(state.wait_for(|state| *state == StoreState::Up))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_raises_the_epoch_once_after_a_restart() {
    let mut server = Redis::options().durable().start().await;
    let store = Store::open(options(&server.url())).await.unwrap();
    let before = *store.epoch().borrow();
    let mut config = redis::cmd("CONFIG");
    config.arg("SET").arg("maxmemory").arg("1");
    config
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
    let mut rewrite = redis::cmd("CONFIG");
    rewrite
        .arg("REWRITE")
        .exec_async(&mut server.connection().await)
        .await
        .unwrap();
    server.restart().await;
    let mut epochs = store.epoch();
    within_test_timeout(epochs.wait_for(|epoch| *epoch > before))
        .await
        .unwrap();
    let raised = *epochs.borrow_and_update();
    let mut roles = HeartbeatCounter::new(&server).await;
    roles.wait_for_heartbeats(3).await;
    assert_eq!(
        *epochs.borrow(),
        raised,
        "not raised again with each heartbeat"
    );
}

/// Counts the heartbeats that a server has received.
struct HeartbeatCounter {
    con: redis::aio::MultiplexedConnection,
}

impl HeartbeatCounter {
    async fn new(server: &Redis) -> Self {
        Self {
            con: server.connection().await,
        }
    }

    async fn count(&mut self) -> u64 {
        let mut cmd = redis::cmd("INFO");
        let info: String = cmd
            .arg("commandstats")
            .query_async(&mut self.con)
            .await
            .unwrap();
        let role = info
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_role:calls="));
        role.and_then(|line| line.split(',').next())
            .map_or(0, |calls| calls.parse().unwrap())
    }

    /// Waits for this many more heartbeats.
    async fn wait_for_heartbeats(&mut self, more: u64) {
        let before = self.count().await;
        eventually("heartbeats arrive", async || {
            self.count().await >= before + more
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_primary_is_discarded_without_a_write() {
    let (server, other) = (Redis::start().await, Redis::start().await);
    let store = Store::open(options(&server.url())).await.unwrap();
    let mut cmd = redis::cmd("REPLICAOF");
    cmd.arg("127.0.0.1").arg(other.port());
    cmd.exec_async(&mut server.connection().await)
        .await
        .unwrap();
    within_test_timeout(store.state().wait_for(
        |state| matches!(state, StoreState::Down { reason, .. } if reason.contains("is a replica now")),
    ))
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_disconnected_while_it_resubscribes_misses_no_channel() {
    const CHANNELS: usize = 3_000;
    let server = Redis::start().await;
    let store = Store::open(options(&server.url())).await.unwrap();
    let mut subscriptions = Vec::new();
    for batch in (0..CHANNELS).collect::<Vec<_>>().chunks(500) {
        let all = batch
            .iter()
            .map(|number| store.bus().subscribe(number.to_string()));
        subscriptions.extend(futures_util::future::try_join_all(all).await.unwrap());
    }
    let mut admin = server.connection().await;
    let kill = async |admin: &mut redis::aio::MultiplexedConnection| {
        let mut cmd = redis::cmd("CLIENT");
        cmd.arg("KILL").arg("TYPE").arg("pubsub");
        cmd.query_async::<i64>(admin).await.unwrap()
    };
    // Repeated without a pause, so that most kills hit a connection that has only a part of the channels.
    for _ in 0..8 {
        within_test_timeout(async { while kill(&mut admin).await == 0 {} }).await;
    }
    for (number, subscription) in subscriptions.iter_mut().enumerate() {
        eventually("the channel is subscribed to again", async || {
            let heard = store.bus().publish(number.to_string(), "x").await;
            heard.is_ok_and(|heard| heard == 1)
        })
        .await;
        // Messages that the server sends between its confirmation and `MaybeMissed` may come first.
        while next(subscription).await != BusEvent::MaybeMissed {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_rejected_after_a_reconnect_is_retried_until_it_is_allowed() {
    let server = Redis::options()
        .acl_user("parlor", "pw", "~* +@all &*")
        .start()
        .await;
    let store = Store::open(options(&server.url_as("parlor", "pw")))
        .await
        .unwrap();
    let mut subscription = store.bus().subscribe("c").await.unwrap();
    let mut admin = server.connection().await;
    let allow = async |rule: &str, admin: &mut redis::aio::MultiplexedConnection| {
        let mut cmd = redis::cmd("ACL");
        cmd.arg("SETUSER").arg("parlor").arg("resetchannels");
        cmd.arg(rule).exec_async(admin).await.unwrap();
    };
    // Redis itself disconnects a client that is subscribed to a channel it may no longer use.
    allow("&other", &mut admin).await;
    eventually("new subscriptions are rejected", async || {
        within_test_timeout(store.bus().subscribe("d"))
            .await
            .is_err()
    })
    .await;
    assert_eq!(subscription.try_next(), None);
    allow("&*", &mut admin).await;
    assert_eq!(next(&mut subscription).await, BusEvent::MaybeMissed);
    store.bus().publish("c", "again").await.unwrap();
    assert_eq!(payload(&mut subscription).await, "again");
}
