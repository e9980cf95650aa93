//! Advances time, with one function for every store engine.

use std::time::Duration;

use redis::{Client, RedisResult, Script, cmd};

use crate::redis_server::connect_with_test_timeout;

/// Runs once per database, so that no other command runs between two keys and no TTL is shortened twice.
const SHORTEN_TTLS_SCRIPT: &str = r"
local by, seen, cursor = tonumber(ARGV[1]), {}, '0'
repeat
    local page = redis.call('SCAN', cursor, 'COUNT', 1000)
    cursor = page[1]
    for _, key in ipairs(page[2]) do
        if not seen[key] then
            seen[key] = true
            local left = redis.call('PTTL', key)
            if left >= 0 then
                if left <= by then
                    redis.call('DEL', key)
                else
                    redis.call('PEXPIRE', key, left - by)
                end
            end
        end
    end
until cursor == '0'
";

/// Advances time by `by`: shortens the TTL of every key on each of `primaries` (a key with a shorter TTL is deleted),
/// then advances the clock of the product with `clock`.
///
/// `primaries` is empty for the embedded engine, whose keys follow its clock; one client for a single server
/// ([`crate::Redis::client`], [`crate::SentinelSet::primary_client`]); all primaries for a cluster
/// ([`crate::RedisCluster::primary_clients`]).
pub async fn advance_time(primaries: &[Client], by: Duration, clock: impl FnOnce(Duration)) {
    for primary in primaries {
        let server_address = primary.get_connection_info().addr();
        shorten_ttls(primary, by)
            .await
            .unwrap_or_else(|error| panic!("cannot advance time on {server_address}: {error}"));
    }
    clock(by);
}

async fn shorten_ttls(primary: &Client, by: Duration) -> RedisResult<()> {
    let mut connection = connect_with_test_timeout(primary).await?;
    let script = Script::new(SHORTEN_TTLS_SCRIPT);
    let milliseconds = u64::try_from(by.as_millis()).expect("the duration fits into 64 bits");
    let keyspace: String = cmd("INFO")
        .arg("keyspace")
        .query_async(&mut connection)
        .await?;
    let mut selected = primary.get_connection_info().redis_settings().db();
    for database in keyspace.lines().filter_map(parse_database_number) {
        // SELECT only if necessary: a cluster may not support it.
        if database != selected {
            cmd("SELECT")
                .arg(database)
                .exec_async(&mut connection)
                .await?;
            selected = database;
        }
        let () = script
            .arg(milliseconds)
            .invoke_async(&mut connection)
            .await?;
    }
    Ok(())
}

/// Parses `db0:keys=1,expires=1,...`
fn parse_database_number(line: &str) -> Option<i64> {
    let (name, _) = line.split_once(':')?;
    name.strip_prefix("db")?.parse().ok()
}
