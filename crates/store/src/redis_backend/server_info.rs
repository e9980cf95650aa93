//! Properties of a server as it reports them: version, role, and the incarnation of its process.

use redis::aio::MultiplexedConnection;
use redis::{InfoDict, RedisResult, Value};

/// Properties of a server as `INFO` reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// Changes with every start of the server, and with every promotion to primary without a restart. `None` if the
    /// user may not run `INFO`.
    pub(crate) incarnation: Option<String>,
    pub(crate) is_replica: bool,
    pub(crate) is_cluster_node: bool,
    /// Version, such as `redis 7.0.15` or `valkey 9.1.2`.
    pub(crate) version: String,
    /// Whether the server supports sharded pub/sub (Redis 7.0 and every Valkey).
    pub(crate) supports_sharded_pubsub: bool,
}

impl ServerInfo {
    /// Runs `INFO`. If the server rejects it, returns default values and the error text.
    pub(crate) async fn fetch(
        con: &mut MultiplexedConnection,
    ) -> RedisResult<(Self, Option<String>)> {
        let mut pipe = redis::pipe();
        pipe.cmd("INFO")
            .arg("server")
            .cmd("INFO")
            .arg("replication");
        let count = pipe.len();
        let replies = con.send_packed_commands(&pipe, 0, count).await?;
        let mut text = String::new();
        for reply in replies {
            match reply {
                Value::ServerError(error) => return Ok((Self::default(), Some(error.to_string()))),
                reply => text += &redis::from_redis_value::<String>(reply)?,
            }
        }
        Ok((Self::parse(&text), None))
    }

    fn parse(info: &str) -> Self {
        let info = InfoDict::new(info);
        let field = |name: &str| info.get::<String>(name);
        let redis = field("redis_version").unwrap_or_else(|| "0".to_owned());
        // Rises with each promotion and only then, so it shows whether a primary was a replica in the meantime.
        let promotion = field("second_repl_offset").unwrap_or_else(|| "-1".to_owned());
        let major = redis.split('.').next().and_then(|major| major.parse().ok());
        Self {
            incarnation: field("run_id").map(|run_id| format!("{run_id}:{promotion}")),
            is_replica: field("role").as_deref() == Some("slave"),
            is_cluster_node: field("redis_mode").as_deref() == Some("cluster"),
            supports_sharded_pubsub: major.is_some_and(|major: u32| major >= 7),
            version: match field("valkey_version") {
                Some(valkey) => format!("valkey {valkey}"),
                None => format!("redis {redis}"),
            },
        }
    }

    /// The incarnation. A random one if the server does not report it, because every connection could lead to another
    /// process.
    pub(crate) fn incarnation_or_random(&self) -> String {
        let random = || format!("unknown:{:016x}", rand::random::<u64>());
        self.incarnation.clone().unwrap_or_else(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_incarnation_is_run_id_and_second_repl_offset() {
        let redis = "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\nrun_id:abc\r\n# Replication\r\nrole:slave\r\nsecond_repl_offset:-1\r\n";
        let redis = ServerInfo::parse(redis);
        assert_eq!(redis.incarnation.as_deref(), Some("abc:-1"));
        assert_eq!(redis.version, "redis 6.2.14");
        assert!(redis.is_replica && !redis.is_cluster_node && !redis.supports_sharded_pubsub);

        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nredis_mode:cluster\r\nrun_id:d\r\nrole:master\r\nsecond_repl_offset:77\r\n";
        let valkey = ServerInfo::parse(valkey);
        assert_eq!(valkey.incarnation.as_deref(), Some("d:77"));
        assert_eq!(valkey.version, "valkey 9.1.2");
        assert!(!valkey.is_replica && valkey.is_cluster_node && valkey.supports_sharded_pubsub);
    }
}
