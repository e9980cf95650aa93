//! Holds a script against the step that stands in for it on the embedded engine.
//!
//! Always true: both get the same keys, the same call and the same time; replies, all keys with what is left of their lives,
//! and everything published are compared after each call.

use parlor_store::{BusEvent, BusSubscription, LuaScript, ManualClock, Store, StoreOptions};
use redis::{Arg, Cmd, RedisResult, Value, cmd};

/// Two engines: one runs scripts, the other what stands in for them.
pub(crate) struct ScriptParity {
    script: ParityStore,
    native: ParityStore,
}

struct ParityStore {
    store: Store,
    subscription: BusSubscription,
}

const MARKER: &str = "the end of a call";

impl ParityStore {
    async fn open(clock: &ManualClock) -> Self {
        let store = Store::open(StoreOptions {
            clock: Some(clock.clone()),
            ..StoreOptions::default()
        });
        let store = store.await.expect("a store in memory");
        let heard = store.bus().psubscribe("*").await.expect("subscribed");
        Self {
            store,
            subscription: heard,
        }
    }

    async fn run(&self, cmd: &Cmd) -> RedisResult<Value> {
        cmd.query_async(&mut self.store.clone()).await
    }

    /// What was published since the last time.
    async fn drain_published(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let published = self.store.bus().publish(MARKER, MARKER).await;
        published.expect("published");
        let mut heard = Vec::new();
        while let Some(BusEvent::Message {
            channel, payload, ..
        }) = self.subscription.next().await
        {
            if *channel == *MARKER.as_bytes() {
                break;
            }
            heard.push((channel.to_vec(), payload.to_vec()));
        }
        heard
    }

    /// Everything there is.
    async fn dump(&self) -> Vec<(Vec<u8>, Value, Value)> {
        let mut store = self.store.clone();
        let keys = cmd("KEYS").arg("*").take();
        let mut keys: Vec<Vec<u8>> = keys.query_async(&mut store).await.expect("keys");
        // Each engine has its own origin.
        keys.retain(|key| !key.starts_with(b"parlor:epoch"));
        keys.sort();
        let mut all = Vec::new();
        for key in keys {
            let kind = cmd("TYPE").arg(&key).take();
            let kind: String = kind.query_async(&mut store).await.expect("a type");
            let read = match kind.as_str() {
                "string" => cmd("GET").arg(&key).take(),
                "hash" => cmd("HGETALL").arg(&key).take(),
                "list" => cmd("LRANGE").arg(&key).arg(0).arg(-1).take(),
                "set" => cmd("SMEMBERS").arg(&key).take(),
                _ => cmd("ZRANGE")
                    .arg(&key)
                    .arg(0)
                    .arg(-1)
                    .arg("WITHSCORES")
                    .take(),
            };
            let value = self.run(&read).await.expect("a value");
            let left = self.run(cmd("PTTL").arg(&key)).await.expect("a time");
            all.push((key, value, left));
        }
        all
    }
}

impl ScriptParity {
    /// Both at this time.
    pub(crate) async fn open(clock: &ManualClock) -> Self {
        Self {
            script: ParityStore::open(clock).await,
            native: ParityStore::open(clock).await,
        }
    }

    /// The store by which calls are spelled.
    pub(crate) fn store(&self) -> &Store {
        &self.native.store
    }

    /// Runs a command on both.
    pub(crate) async fn run_on_both(&self, cmd: &Cmd) {
        for side in [&self.script, &self.native] {
            side.run(cmd).await.expect("a command");
        }
    }

    /// Runs a command on both, which may refuse it.
    pub(crate) async fn try_on_both(&self, cmd: &Cmd) {
        let taken = self.script.run(cmd).await.is_ok();
        assert_eq!(self.native.run(cmd).await.is_ok(), taken);
    }

    /// Calls a script on one and what stands in for it on the other; both have to do the same.
    pub(crate) async fn assert_same(
        &mut self,
        script: &'static LuaScript,
        call: impl Into<Cmd>,
        what: &str,
    ) {
        let call = call.into();
        let mut by_source = cmd("EVAL");
        by_source.arg(script.source());
        for arg in call.args_iter().skip(2) {
            if let Arg::Simple(arg) = arg {
                by_source.arg(arg);
            }
        }
        let expected = self.script.run(&by_source).await;
        let found = self.native.run(&call).await;
        match (&expected, &found) {
            (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{what}"),
            (Err(expected), Err(found)) => assert_eq!(found.code(), expected.code(), "{what}"),
            _ => panic!("{what}: {expected:?}, and not {found:?}"),
        }
        let (expected, found) = (
            self.script.drain_published().await,
            self.native.drain_published().await,
        );
        assert_eq!(found, expected, "{what}");
        assert_eq!(self.native.dump().await, self.script.dump().await, "{what}");
    }
}
