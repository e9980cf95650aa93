//! Test support: compares a Lua script with its native version on the embedded store.
//!
//! Invariant: both versions get the same keys, arguments and time. After each call the replies, all keys with their
//! remaining TTLs and all published messages must be equal.

use parlor_store::{
    BusEvent, BusSubscription, LuaScript, ManualClock, ScriptCall, Store, StoreOptions,
};
use redis::{Arg, Cmd, RedisResult, Value, cmd};

/// Two embedded stores: one runs the Lua script, the other one its native version.
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

    /// The messages that were published since the last call.
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

    /// All keys with their value and remaining TTL.
    async fn dump(&self) -> Vec<(Vec<u8>, Value, Value)> {
        let mut store = self.store.clone();
        let keys = cmd("KEYS").arg("*").take();
        let mut keys: Vec<Vec<u8>> = keys.query_async(&mut store).await.expect("keys");
        // Each store has its own epoch.
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
    /// Opens both stores with the same clock.
    pub(crate) async fn open(clock: &ManualClock) -> Self {
        Self {
            script: ParityStore::open(clock).await,
            native: ParityStore::open(clock).await,
        }
    }

    /// The store that runs native scripts.
    pub(crate) fn store(&self) -> &Store {
        &self.native.store
    }

    /// Runs a command on both stores; it must succeed.
    pub(crate) async fn run_on_both(&self, cmd: &Cmd) {
        for side in [&self.script, &self.native] {
            side.run(cmd).await.expect("a command");
        }
    }

    /// Runs a command on both stores; either both succeed or both fail.
    pub(crate) async fn try_on_both(&self, cmd: &Cmd) {
        let taken = self.script.run(cmd).await.is_ok();
        assert_eq!(self.native.run(cmd).await.is_ok(), taken);
    }

    /// Calls the script on one store and its native version on the other one, and compares the effects.
    pub(crate) async fn assert_same(
        &mut self,
        script: &'static LuaScript,
        call: ScriptCall,
        what: &str,
    ) {
        let call = call.cmd();
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
