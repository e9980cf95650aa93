//! Reads what a server reports about itself: `INFO`, `CLUSTER INFO` and `CONFIG GET`.

use std::collections::{BTreeMap, HashMap};

use parlor_store::{Store, StoreTls, StoreUrl};
use redis::InfoDict;

use crate::config::Config;

/// The `redis-cli` command that connects to the server. A password has to be set in `REDISCLI_AUTH`.
pub fn redis_cli_command(config: &Config) -> String {
    let StoreUrl::Redis {
        server,
        tls,
        database,
        ..
    } = &config.store.url
    else {
        return "redis-cli -h <host> -p <port>".into();
    };
    let tls = if *tls == StoreTls::Off { "" } else { " --tls" };
    let database = match database {
        0 => String::new(),
        number => format!(" -n {number}"),
    };
    format!(
        "redis-cli -h {} -p {}{tls}{database}",
        server.host, server.port
    )
}

/// Value of a configuration parameter by server address. A server that rejects CONFIG or does not know the parameter is
/// left out.
pub async fn config_get(store: &Store, name: &str) -> BTreeMap<String, String> {
    let command = redis::cmd("CONFIG").arg("GET").arg(name).take();
    let replies = store.query_each_primary(&command).await.into_iter();
    let value = |reply| {
        let mut values: HashMap<String, String> = redis::from_redis_value(reply).ok()?;
        values.remove(name)
    };
    replies
        .filter_map(|(server, reply)| Some((server, value(reply.ok()?)?)))
        .collect()
}

/// Value of a field of `INFO`; empty if it is missing.
pub fn field(info: &InfoDict, name: &str) -> String {
    info.get(name).unwrap_or_default()
}
