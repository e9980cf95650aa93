//! Random commands, then a restart: the loaded state must equal the state before.

use std::sync::Arc;
use std::time::Duration;

use parlor_embedded::{EmbeddedEngine, EngineOptions, ManualClock};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::memory_only::make_memory_only;
use super::{dump, options, try_command};

const TEMPLATES: &[&str] = &[
    "SET k v",
    "SET k v PX t",
    "SET k v KEEPTTL",
    "APPEND k v",
    "INCRBY k n",
    "GETDEL k",
    "SETRANGE k 3 v",
    "MSET k v k v",
    "HSET k i v",
    "HSET k i v i v",
    "HDEL k i",
    "HINCRBY k i n",
    "HSETNX k i v",
    "RPUSH k v",
    "LPUSH k v v",
    "LPOP k",
    "RPOP k",
    "LTRIM k 1 -2",
    "LREM k 1 v",
    "LSET k 0 v",
    "LINSERT k BEFORE v v",
    "LMOVE k k LEFT RIGHT",
    "SADD k i i",
    "SREM k i",
    "SPOP k",
    "SMOVE k k i",
    "SUNIONSTORE k k k",
    "ZADD k n i",
    "ZADD k inf i",
    "ZINCRBY k n i",
    "ZREM k i",
    "ZREMRANGEBYRANK k 0 0",
    "ZPOPMIN k",
    "DEL k",
    "PEXPIRE k t",
    "PERSIST k",
    "RENAME k k",
    "COPY k k REPLACE",
    "EXPIRE k -1",
    "FLUSHALL",
];

/// Commands on lists, some of which are memory-only.
const LIST_TEMPLATES: &[&str] = &[
    "RPUSH k v",
    "LPUSH k v v",
    "LPOP k",
    "LTRIM k 1 -2",
    "LREM k 1 v",
    "LSET k 0 v",
    "LINSERT k BEFORE v v",
    "LMOVE k k LEFT RIGHT",
    "RENAME k k",
    "COPY k k REPLACE",
    "PEXPIRE k t",
    "PERSIST k",
    "DEL k",
    "SET k v",
];

struct TestRng(SmallRng);

impl TestRng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.random_range(0..bound)
    }

    fn command(&mut self, templates: &[&'static str]) -> String {
        let mut template = templates[self.below(templates.len() as u64) as usize];
        if template == "FLUSHALL" && self.below(10) > 0 {
            template = "SET k v";
        }
        let words = template.split(' ').map(|word| match word {
            "k" => format!("key{}", self.below(12)),
            "i" => format!("item{}", self.below(6)),
            "v" => format!("value{}", self.below(5)),
            "n" => self.below(40).to_string(),
            "t" => (1 + self.below(4_000)).to_string(),
            word => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_commands_survive_a_restart() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::default();
    let mut random = TestRng(SmallRng::seed_from_u64(1));
    let mut done = 0;
    for round in 0..80 {
        let some_memory_only = round % 4 == 3;
        let templates = if some_memory_only {
            LIST_TEMPLATES
        } else {
            TEMPLATES
        };
        let engine_clock = Arc::new(clock.clone());
        let engine = EmbeddedEngine::open(EngineOptions {
            clock: engine_clock,
            ..options(folder.path())
        })
        .unwrap();
        for _ in 0..random.below(400) {
            let command = random.command(templates);
            done += usize::from(try_command(&engine, &command).await.is_ok());
            if some_memory_only && random.below(10) == 0 {
                make_memory_only(&engine, &format!("key{}", random.below(12))).await;
            }
            if random.below(50) == 0 {
                clock.advance(Duration::from_millis(random.below(500)));
            }
            if random.below(100) == 0 {
                engine.flush().await.unwrap();
            }
        }
        let mut before = dump(&engine).await;
        engine.close().await;
        let engine_clock = Arc::new(clock.clone());
        let engine = EmbeddedEngine::open(EngineOptions {
            clock: engine_clock,
            ..options(folder.path())
        })
        .unwrap();
        let after = dump(&engine).await;
        // A memory-only list is lost as a whole.
        before.retain(|key, (kind, ..)| {
            !some_memory_only || kind != "list" || after.contains_key(key)
        });
        assert_eq!(after, before, "after round {round}");
    }
    assert!(done > 3_000, "only {done} commands succeeded");
}
