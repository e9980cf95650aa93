//! Checks a Redis or Valkey server: version, persistence, memory, clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parlor_store::{Store, StoreUrl};
use redis::{InfoDict, RedisResult};

use super::super::store_reader::query;
use super::server_info::{self, config_get, field};
use super::{Finding, Severity, access, merge};
use crate::config::Config;

/// Oldest version with all commands that Parlor uses.
const MIN_REDIS_VERSION: (u32, u32) = (6, 2);
/// Maximum difference of the clocks without a warning.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// Runs all checks, the most important ones first.
pub async fn check_server(store: &Store, config: &Config) -> Vec<Finding> {
    let mut findings = vec![check_reachable(store, config).await];
    if findings[0].level == Severity::Fail {
        return findings;
    }
    let cluster = matches!(config.store.url, StoreUrl::Cluster { .. });
    if cluster {
        findings.push(check_cluster_slots(store).await);
    }
    findings.extend(check_primaries(store, config).await);
    findings.extend(access::check_access(store, config).await);
    findings.push(check_clock(store).await);
    findings.push(check_keyspace_events(store).await);
    findings
}

/// Checks each primary by its INFO.
async fn check_primaries(store: &Store, config: &Config) -> Vec<Finding> {
    let cli = server_info::redis_cli_command(config);
    let saves = config_get(store, "save").await;
    let answers = store.query_each_primary(&redis::cmd("INFO")).await;
    let found = answers.into_iter().map(|(server, answer)| {
        let info = answer.and_then(|reply| Ok(redis::from_redis_value::<InfoDict>(reply)?));
        let findings = match info {
            Ok(fields) => vec![
                check_version(&fields),
                check_persistence(&fields, saves.get(&server).map(String::as_str), &cli),
                check_memory(&fields, &cli),
            ],
            Err(error) => vec![Finding::warn(
                "info",
                format!(
                    "INFO is not allowed, so version, persistence and memory are unknown: {error}"
                ),
                "allow this user INFO: `ACL SETUSER <user> +info`",
            )],
        };
        (server, findings)
    });
    merge::merge_findings(found.collect())
}

async fn check_cluster_slots(store: &Store) -> Finding {
    const CHECK: &str = "cluster";
    let info: RedisResult<InfoDict> = query(store, redis::cmd("CLUSTER").arg("INFO")).await;
    match info {
        Ok(fields) if field(&fields, "cluster_state") == "ok" => Finding::ok(
            CHECK,
            format!(
                "all slots are served by {} primaries",
                field(&fields, "cluster_size")
            ),
        ),
        Ok(fields) => {
            let finding = format!(
                "{} of 16384 slots are served",
                field(&fields, "cluster_slots_ok")
            );
            Finding::fail(CHECK, finding, "`redis-cli --cluster fix <host>:<port>`")
        }
        Err(error) => Finding::info(CHECK, format!("CLUSTER INFO is not allowed: {error}")),
    }
}

async fn check_reachable(store: &Store, config: &Config) -> Finding {
    let url = &config.store.url;
    let start = Instant::now();
    match query::<String>(store, &redis::cmd("PING")).await {
        Ok(_) => Finding::ok(
            "reachable",
            format!(
                "{url} answers in {:.1} ms",
                start.elapsed().as_secs_f64() * 1e3
            ),
        ),
        Err(error) => Finding::fail(
            "reachable",
            format!("{url}: {error}"),
            "check store.url, the network and the server",
        ),
    }
}

fn check_version(fields: &InfoDict) -> Finding {
    let valkey = field(fields, "valkey_version");
    let redis = field(fields, "redis_version");
    // Valkey reports the Redis version that it is compatible with as `redis_version`.
    let shown = if valkey.is_empty() {
        format!("Redis {redis}")
    } else {
        format!("Valkey {valkey}")
    };
    let mut parts = redis.split('.').map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if (major, minor) >= MIN_REDIS_VERSION => {
            Finding::ok("version", shown)
        }
        (Some(_), Some(_)) => Finding::fail(
            "version",
            format!("{shown} is too old"),
            "upgrade to Redis 6.2 or later, or to Valkey",
        ),
        _ => Finding::info("version", "the server does not report its version"),
    }
}

fn check_persistence(fields: &InfoDict, save: Option<&str>, cli: &str) -> Finding {
    const CHECK: &str = "persistence";
    if field(fields, "aof_last_write_status") == "err"
        || field(fields, "rdb_last_bgsave_status") == "err"
    {
        return Finding::fail(
            CHECK,
            "the last write to disk failed",
            "check the log of the server and its free disk space",
        );
    }
    if field(fields, "aof_enabled") == "1" {
        return Finding::ok(CHECK, "append-only file");
    }
    let fix = format!("`{cli} CONFIG SET appendonly yes`, and `appendonly yes` in redis.conf");
    match save {
        Some("") => Finding::warn(
            CHECK,
            "none: a restart of the server loses sessions, presence and everything that is not in the database",
            fix,
        ),
        Some(save) => Finding::warn(
            CHECK,
            format!("snapshots only (save {save}): a crash loses all changes since the last one"),
            fix,
        ),
        None if field(fields, "aof_enabled").is_empty() => {
            Finding::info(CHECK, "the server does not report its persistence")
        }
        None => Finding::info(
            CHECK,
            "no append-only file; snapshots are unknown because CONFIG is not allowed",
        ),
    }
}

fn check_memory(fields: &InfoDict, cli: &str) -> Finding {
    const CHECK: &str = "memory";
    let limit = fields.get::<u64>("maxmemory");
    let policy = field(fields, "maxmemory_policy");
    let policy = policy.as_str();
    let limit_text = match limit {
        Some(0) => "no maxmemory".to_owned(),
        Some(bytes) => format!("maxmemory {} MiB", bytes >> 20),
        None => return Finding::info(CHECK, "the server does not report maxmemory and its policy"),
    };
    let finding = format!("{limit_text}, maxmemory-policy {policy}");
    let fix = format!(
        "`{cli} CONFIG SET maxmemory-policy volatile-ttl` (or noeviction), and the same in redis.conf"
    );
    match policy {
        "noeviction" | "volatile-ttl" => Finding::ok(CHECK, finding),
        _ => {
            let why = if policy.starts_with("allkeys") {
                "unread counts and sessions can be evicted"
            } else {
                "sessions can be evicted before keys that expire soon"
            };
            // Without a limit, nothing is evicted.
            let level = if limit == Some(0) || !policy.starts_with("allkeys") {
                Severity::Warn
            } else {
                Severity::Fail
            };
            Finding {
                fix: Some(fix),
                ..Finding::new(CHECK, level, format!("{finding}: {why}"))
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the check compares the clock of this machine"
)]
async fn check_clock(store: &Store) -> Finding {
    let before = Instant::now();
    let answers = store.query_each_primary(&redis::cmd("TIME")).await;
    let half = before.elapsed() / 2;
    let local_time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut worst = Duration::ZERO;
    for (_, answer) in answers {
        let (seconds, micros): (u64, u64) = match answer
            .and_then(|answer| Ok(redis::from_redis_value(answer)?))
        {
            Ok(time) => time,
            Err(error) => return Finding::info("clock", format!("TIME is not allowed: {error}")),
        };
        let server_time = Duration::from_secs(seconds) + Duration::from_micros(micros) + half;
        worst = worst.max(local_time.abs_diff(server_time));
    }
    let finding = format!(
        "{} ms off from the clock of this machine",
        worst.as_millis()
    );
    if worst > MAX_CLOCK_DIFFERENCE {
        Finding::warn(
            "clock",
            finding,
            "run NTP on all machines; Parlor uses the clock of the store, tokens that of this machine",
        )
    } else {
        Finding::ok("clock", finding)
    }
}

async fn check_keyspace_events(store: &Store) -> Finding {
    let answers = config_get(store, "notify-keyspace-events").await;
    let on = answers.values().find(|flags| !flags.is_empty());
    let finding = match on.or(answers.values().next()) {
        Some(flags) if flags.is_empty() => {
            "keyspace events are off; Parlor does not need them".to_owned()
        }
        Some(flags) => format!("keyspace events are on ({flags}); Parlor does not need them"),
        None => {
            "unknown because CONFIG is not allowed; Parlor does not need keyspace events".to_owned()
        }
    };
    Finding::info("events", finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pairs: &[(&str, &str)]) -> InfoDict {
        let lines = pairs
            .iter()
            .map(|(name, value)| format!("{name}:{value}\r\n"));
        InfoDict::new(&lines.collect::<String>())
    }

    #[test]
    fn versions_before_6_2_fail_and_valkey_is_named() {
        for (pairs, level, text) in [
            (
                &[("redis_version", "6.0.20")][..],
                Severity::Fail,
                "too old",
            ),
            (&[("redis_version", "6.2.0")], Severity::Ok, "Redis 6.2.0"),
            (
                &[("redis_version", "7.2.4"), ("valkey_version", "9.1.0")],
                Severity::Ok,
                "Valkey 9.1.0",
            ),
            (&[], Severity::Info, "does not report"),
        ] {
            let finding = check_version(&info(pairs));
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.message.contains(text), "{finding:?}");
        }
    }

    #[test]
    fn eviction_policies_are_rated_by_the_keys_they_may_evict() {
        for (limit, policy, level) in [
            ("0", "noeviction", Severity::Ok),
            ("1048576", "volatile-ttl", Severity::Ok),
            ("1048576", "allkeys-lru", Severity::Fail),
            ("0", "allkeys-lru", Severity::Warn),
            ("1048576", "volatile-lru", Severity::Warn),
        ] {
            let finding = check_memory(
                &info(&[("maxmemory", limit), ("maxmemory_policy", policy)]),
                "redis-cli",
            );
            assert_eq!(finding.level, level, "{finding:?}");
        }
    }
}
