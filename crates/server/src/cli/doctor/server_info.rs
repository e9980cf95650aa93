//! Reads what a server reports about itself: `INFO`, `CLUSTER INFO` and `CONFIG GET`.

use std::collections::BTreeMap;

use parlor_store::{StoreTls, StoreUrl};
use redis::Value;

use super::super::store_reader::Reader;
use crate::config::Config;

/// Values by field name.
pub type Fields = BTreeMap<String, String>;

/// The `redis-cli` command that connects to the server. A password has to be set in `REDISCLI_AUTH`.
pub fn cli(config: &Config) -> String {
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

/// Parses the reply of `INFO` or `CLUSTER INFO`.
pub fn info(answer: &Value) -> Fields {
    fields(&plain(answer))
}

/// Value of a configuration parameter by server address. A server that rejects CONFIG or does not know the parameter is
/// left out.
pub async fn config(reader: &Reader, name: &str) -> BTreeMap<String, String> {
    let ask = redis::cmd("CONFIG").arg("GET").arg(name).take();
    let answers = reader.query_each_primary(&ask).await.into_iter();
    answers
        .filter_map(|(server, answer)| Some((server, find(&answer.ok()?, name)?)))
        .collect()
}

fn find(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Map(pairs) => pairs
            .iter()
            .find(|(key, _)| plain(key).eq_ignore_ascii_case(name))
            .map(|(_, value)| plain(value)),
        Value::Array(items) => {
            let place = items
                .iter()
                .position(|item| plain(item).eq_ignore_ascii_case(name));
            place.and_then(|place| items.get(place + 1)).map(plain)
        }
        _ => None,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

fn fields(text: &str) -> Fields {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.into(), value.trim().into()))
        .collect()
}

/// Value of a field; empty if it is missing.
pub fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn info_is_read_with_and_without_headings() {
        let fields =
            fields("# Server\r\nredis_version:7.0.15\r\nexecutable:/usr/bin/redis:1\r\n\r\n");
        assert_eq!(field(&fields, "redis_version"), "7.0.15");
        assert_eq!(field(&fields, "executable"), "/usr/bin/redis:1");
        assert_eq!(field(&fields, "nothing"), "");
    }

    #[test]
    fn a_parameter_is_found_in_every_form_of_reply() {
        let flat = Value::Array(vec![bulk("save"), bulk("60 1")]);
        let map = Value::Map(vec![(bulk("save"), bulk("60 1"))]);
        for reply in [flat, map] {
            assert_eq!(find(&reply, "save").as_deref(), Some("60 1"));
        }
        assert_eq!(find(&Value::Array(vec![]), "save"), None);
    }
}
