//! The two sides of the comparison: an embedded engine with a manual clock, and a real Redis server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parlor_embedded::{Clock, EmbeddedConnection, EmbeddedEngine, EngineOptions, ManualClock};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, Value};

use super::compare::{TTL_SLACK, inner_command, normalise, replies_match};
use super::generate::{CommandWord, OracleStep, name};
use crate::dump::dump;

pub struct OraclePair {
    client: redis::Client,
    redis: MultiplexedConnection,
    /// When the manual clock was started. Since then only `Advance` steps move it.
    since: Instant,
}

struct OracleSide<'a, C> {
    connection: &'a mut C,
    now: u64,
}

impl OraclePair {
    pub async fn connect(redis: &parlor_testkit::Redis) -> Self {
        let client = redis.client();
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(30)))
            .set_response_timeout(Some(Duration::from_secs(60)));
        let mut redis = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("a connection");
        // One long member would change a sorted set to the encoding whose ranges by member are random if scores differ.
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg("zset-max-listpack-value").arg(1_000);
        let () = config.query_async(&mut redis).await.expect("CONFIG SET");
        Self {
            client,
            redis,
            since: Instant::now(),
        }
    }

    /// Allowed difference of two TTLs at this moment, in ms.
    fn slack(&self) -> i64 {
        TTL_SLACK + self.since.elapsed().as_millis() as i64
    }

    async fn redis_now(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME")
            .query_async(&mut self.redis)
            .await
            .expect("TIME");
        seconds * 1_000 + micros / 1_000
    }

    /// Runs steps on both sides, starting with empty databases. Returns the first difference as an error.
    pub async fn run(&mut self, steps: &[OracleStep]) -> Result<(), String> {
        let () = redis::cmd("FLUSHALL")
            .query_async(&mut self.redis)
            .await
            .expect("FLUSHALL");
        self.since = Instant::now();
        let clock = ManualClock::new(self.redis_now().await);
        let options = EngineOptions {
            clock: Arc::new(clock.clone()),
            ..EngineOptions::default()
        };
        let engine = EmbeddedEngine::open(options).expect("an engine in memory");
        let mut ours = engine.connection();
        for part in steps.split_inclusive(|step| matches!(step, OracleStep::Advance(_))) {
            self.run_part(&mut ours, &clock, part).await?;
            if let Some(OracleStep::Advance(seconds)) = part.last() {
                let client = std::slice::from_ref(&self.client);
                let move_ours = |by| clock.advance(by);
                parlor_testkit::advance_time(client, Duration::from_secs(*seconds), move_ours)
                    .await;
            }
        }
        self.compare_final_state(&mut ours).await
    }

    /// Runs the steps between two moves of the clocks.
    async fn run_part(
        &mut self,
        ours: &mut EmbeddedConnection,
        clock: &ManualClock,
        steps: &[OracleStep],
    ) -> Result<(), String> {
        let redis_now = self.redis_now().await;
        let ours = OracleSide {
            connection: ours,
            now: clock.now_ms(),
        }
        .replies(steps)
        .await;
        let theirs = OracleSide {
            connection: &mut self.redis,
            now: redis_now,
        }
        .replies(steps)
        .await;
        let slack = self.slack();
        for ((words, ours), theirs) in commands(steps).zip(ours).zip(theirs) {
            let (ours, theirs) = (normalise(words, ours), normalise(words, theirs));
            if !replies_match(words, &ours, &theirs, slack) {
                let step = OracleStep::Command(words.to_vec());
                return Err(format!(
                    "{step}\n  embedded: {ours:?}\n  redis:    {theirs:?}"
                ));
            }
        }
        Ok(())
    }

    async fn compare_final_state(&mut self, ours: &mut EmbeddedConnection) -> Result<(), String> {
        let (ours, theirs) = (dump(ours).await, dump(&mut self.redis).await);
        let slack = self.slack();
        let same_ttl = |a: i64, b: i64| (a - b).abs() <= slack && (a < 0) == (b < 0);
        for key in ours.keys().chain(theirs.keys()) {
            match (ours.get(key), theirs.get(key)) {
                (Some(a), Some(b)) if (&a.0, &a.1) == (&b.0, &b.1) && same_ttl(a.2, b.2) => {}
                (ours, theirs) => {
                    return Err(format!(
                        "the final state of key '{}' differs\n  embedded: {ours:?}\n  redis:    {theirs:?}",
                        key.escape_ascii()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// All commands of the steps in order, commands of transactions included.
fn commands(steps: &[OracleStep]) -> impl Iterator<Item = &[CommandWord]> {
    steps.iter().flat_map(|step| match step {
        OracleStep::Command(words) => vec![&words[..]],
        OracleStep::Transaction(commands) => commands.iter().map(|words| &words[..]).collect(),
        OracleStep::Advance(_) => vec![],
    })
}

impl<C: ConnectionLike> OracleSide<'_, C> {
    fn command(&self, words: &[CommandWord]) -> Cmd {
        let mut command = Cmd::new();
        for word in words {
            match word {
                CommandWord::Plain(bytes) => command.arg(bytes),
                CommandWord::Seconds(n) => command.arg(self.now / 1_000 + n),
                CommandWord::Millis(n) => command.arg(self.now + n),
            };
        }
        command
    }

    /// Replies to all commands. A rejected transaction gives its error for each of its commands.
    async fn replies(mut self, steps: &[OracleStep]) -> Vec<Value> {
        let mut replies = Vec::new();
        let mut batch: Vec<&[CommandWord]> = Vec::new();
        for step in steps {
            match step {
                OracleStep::Command(words) => batch.push(words),
                OracleStep::Advance(_) => {}
                OracleStep::Transaction(commands) => {
                    replies.extend(self.batch(&std::mem::take(&mut batch)).await);
                    replies.extend(self.transaction(commands).await);
                }
            }
        }
        replies.extend(self.batch(&batch).await);
        replies
    }

    fn make_times_relative(&self, words: &[CommandWord], reply: Value) -> Value {
        match (name(inner_command(words)).as_str(), reply) {
            ("EXPIRETIME", Value::Int(n)) if n >= 0 => {
                Value::Int((n - (self.now / 1_000) as i64).max(0))
            }
            ("PEXPIRETIME", Value::Int(n)) if n >= 0 => Value::Int((n - self.now as i64).max(0)),
            (_, reply) => reply,
        }
    }

    async fn batch(&mut self, commands: &[&[CommandWord]]) -> Vec<Value> {
        if commands.is_empty() {
            return Vec::new();
        }
        let mut pipeline = Pipeline::new();
        for words in commands {
            pipeline.add_command(self.command(words));
        }
        let replies = self
            .connection
            .req_packed_commands(&pipeline, 0, commands.len())
            .await;
        let replies = replies.expect("a pipeline gives replies");
        commands
            .iter()
            .zip(replies)
            .map(|(words, reply)| self.make_times_relative(words, reply))
            .collect()
    }

    async fn transaction(&mut self, commands: &[Vec<CommandWord>]) -> Vec<Value> {
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        for words in commands {
            pipeline.add_command(self.command(words));
        }
        let reply = self
            .connection
            .req_packed_commands(&pipeline, commands.len() + 1, 1)
            .await;
        match reply.map(|mut replies| replies.pop()) {
            Ok(Some(Value::Array(replies))) => commands
                .iter()
                .zip(replies)
                .map(|(words, reply)| self.make_times_relative(words, reply))
                .collect(),
            // The two clients report a rejected transaction in different ways, so only the rejection is compared.
            _ => commands
                .iter()
                .map(|_| Value::SimpleString("rejected".to_owned()))
                .collect(),
        }
    }
}
