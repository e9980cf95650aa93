//! The kinds of setting values, and the parser from text to a checked value.
//!
//! A kind accepts the same text from every source, so file, variable and flag behave alike.

use std::time::Duration;

use parlor_chat::ids::IdKind;
use parlor_store::StoreUrl;
use tracing_subscriber::EnvFilter;

use super::duration;
use crate::client_address::parse_network;

/// Levels of `log.level`.
const LOG_LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Kind of the value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// Any text; empty means not set.
    Text,
    /// A file or folder; empty means not set.
    Path,
    /// A folder; required.
    RequiredFolder,
    /// Id of a node; empty means a generated one.
    Node,
    /// `host:port`.
    Address,
    /// `host:port`; empty disables the listener.
    OptionalAddress,
    /// A whole number between these bounds, inclusive.
    Number(u64, u64),
    /// A duration of at least this many milliseconds.
    Duration(u64),
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts. Variables and flags separate the items by commas.
    TextList,
    /// Origins of browser pages. Variables and flags separate them by commas.
    Origins,
    /// IP addresses and networks. Variables and flags separate them by commas.
    Networks,
    /// URL of the store.
    StoreUrl,
    /// URL of the database; empty means SQLite in the data folder.
    DatabaseUrl,
    /// A level, or levels by module (`info,parlor_store=debug`).
    LogFilter,
}

/// A checked value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// A text, path, address, choice or URL.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A duration.
    Duration(Duration),
    /// A boolean.
    Boolean(bool),
    /// A list of texts.
    List(Vec<String>),
}

/// A value as it is written in its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawValue {
    /// One value, as text.
    Scalar(String),
    /// A list of values, as texts.
    List(Vec<String>),
    /// A TOML type that no setting accepts, by its name (`a table`).
    Unsupported(&'static str),
}

impl SettingKind {
    /// Parses a value. The error says what is wrong and what is expected.
    pub fn parse(self, raw: &RawValue) -> Result<SettingValue, String> {
        match (self, raw) {
            (_, RawValue::Scalar(text)) => self.parse_text(text),
            (
                SettingKind::TextList | SettingKind::Origins | SettingKind::Networks,
                RawValue::List(items),
            ) => self.parse_list(items.iter().map(String::as_str)),
            (_, RawValue::List(_)) => Err(format!(
                "a list is not allowed here; expected {}",
                self.expected()
            )),
            (_, RawValue::Unsupported(what)) => Err(format!(
                "{what} is not allowed here; expected {}",
                self.expected()
            )),
        }
    }

    fn parse_text(self, text: &str) -> Result<SettingValue, String> {
        let wrong = || format!("`{text}` is not {}", self.expected());
        match self {
            SettingKind::Text | SettingKind::Path => Ok(SettingValue::Text(text.to_owned())),
            SettingKind::RequiredFolder if text.is_empty() => Err(wrong()),
            SettingKind::RequiredFolder => Ok(SettingValue::Text(text.to_owned())),
            SettingKind::Node if text.is_empty() => Ok(SettingValue::Text(String::new())),
            SettingKind::Node => match IdKind::Node.validate(text) {
                Ok(()) => Ok(SettingValue::Text(text.to_owned())),
                Err(error) => Err(error.to_string()),
            },
            SettingKind::OptionalAddress if text.is_empty() => {
                Ok(SettingValue::Text(String::new()))
            }
            SettingKind::Address | SettingKind::OptionalAddress => is_address(text)
                .then(|| SettingValue::Text(text.to_owned()))
                .ok_or_else(wrong),
            SettingKind::Number(min, max) => text
                .trim()
                .parse()
                .ok()
                .filter(|n| (min..=max).contains(n))
                .map(SettingValue::Number)
                .ok_or_else(wrong),
            SettingKind::Duration(min) => {
                let time = duration::parse(text)?;
                if time < Duration::from_millis(min) {
                    let min = duration::format(Duration::from_millis(min));
                    return Err(format!("`{text}` is too short; the minimum is {min}"));
                }
                Ok(SettingValue::Duration(time))
            }
            SettingKind::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(SettingValue::Boolean(true)),
                "false" | "no" | "off" | "0" => Ok(SettingValue::Boolean(false)),
                _ => Err(wrong()),
            },
            SettingKind::Choice(words) => {
                if words.contains(&text) {
                    return Ok(SettingValue::Text(text.to_owned()));
                }
                Err(match super::suggest::nearest(text, words.iter().copied()) {
                    Some(word) => format!("{}; did you mean `{word}`?", wrong()),
                    None => wrong(),
                })
            }
            SettingKind::TextList | SettingKind::Origins | SettingKind::Networks => {
                let items = text.split(',').map(str::trim);
                self.parse_list(items.filter(|item| !item.is_empty()))
            }
            SettingKind::StoreUrl => match text.parse::<StoreUrl>() {
                Ok(_) => Ok(SettingValue::Text(text.to_owned())),
                Err(error) => Err(error.to_string()),
            },
            SettingKind::DatabaseUrl => {
                let known = ["sqlite:", "postgres://", "postgresql://"];
                let fits = text.is_empty() || known.iter().any(|start| text.starts_with(start));
                // The text may contain a password, so the error repeats only the scheme.
                let scheme = text.split(':').next().unwrap_or_default();
                fits.then(|| SettingValue::Text(text.to_owned()))
                    .ok_or_else(|| format!("`{scheme}:` is not {}", self.expected()))
            }
            SettingKind::LogFilter => match find_invalid_level(text) {
                Some(word) => Err(
                    match super::suggest::nearest(word, LOG_LEVELS.into_iter()) {
                        Some(level) => format!("{}; did you mean `{level}`?", wrong()),
                        None => wrong(),
                    },
                ),
                None if EnvFilter::try_new(text).is_err() => Err(wrong()),
                None => Ok(SettingValue::Text(text.to_owned())),
            },
        }
    }

    fn parse_list<'a>(self, items: impl Iterator<Item = &'a str>) -> Result<SettingValue, String> {
        let item = |item: &str| {
            match self {
                SettingKind::Origins => parse_origin(item),
                SettingKind::Networks => parse_network(item).map(|_| item.to_owned()),
                _ => Some(item.to_owned()),
            }
            .ok_or_else(|| format!("`{item}` is not {}", self.expected()))
        };
        let items = items.map(item).collect::<Result<_, _>>();
        items.map(SettingValue::List)
    }

    /// Describes the accepted values; the text fits after "expected" and after "is not".
    pub fn expected(self) -> String {
        match self {
            SettingKind::Text => "text".into(),
            SettingKind::Path => "a path".into(),
            SettingKind::RequiredFolder => "a folder; `.` is the working folder".into(),
            SettingKind::Node => "a node id, or empty for a generated one".into(),
            SettingKind::Address => "an address like 127.0.0.1:7070".into(),
            SettingKind::OptionalAddress => {
                "an address like 127.0.0.1:7071, or empty to disable it".into()
            }
            SettingKind::Number(min, max) => format!("a whole number from {min} to {max}"),
            SettingKind::Duration(_) => {
                "a duration: seconds, or text like \"500ms\", \"20s\", \"5m\", \"1h\"".into()
            }
            SettingKind::Boolean => "true or false".into(),
            SettingKind::Choice(words) => format!("one of {}", words.join(", ")),
            SettingKind::TextList => "a list of strings".into(),
            SettingKind::Origins => "an origin like https://chat.example.com, or `*`".into(),
            SettingKind::Networks => "an address like 10.0.0.1 or a network like 10.0.0.0/8".into(),
            SettingKind::StoreUrl => {
                "embedded:, redis://, rediss://, redis+sentinel:// or redis+cluster://".into()
            }
            SettingKind::DatabaseUrl => "sqlite: or postgres://".into(),
            SettingKind::LogFilter => {
                "a level (error, warn, info, debug, trace, off) or levels by module".into()
            }
        }
    }
}

/// Browsers send an origin in lower case and without a path, so it is stored that way.
fn parse_origin(item: &str) -> Option<String> {
    let item = item.to_ascii_lowercase();
    let (scheme, host) = item.split_once("://").unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let fits = ["http", "https"].contains(&scheme) && !host.is_empty() && host.chars().all(plain);
    (fits || item == "*").then_some(item)
}

/// The first level in a log filter that is none. `EnvFilter` would take an unknown word for the name of a module, and
/// then log nothing of all others.
fn find_invalid_level(filter: &str) -> Option<&str> {
    // The fields of a span, in brackets, can contain commas.
    if filter.contains('[') {
        return None;
    }
    let mut levels = filter.split(',').map(|part| {
        part.rsplit_once('=')
            .map_or(part, |(_, level)| level)
            .trim()
    });
    levels.find(|level| !LOG_LEVELS.iter().any(|it| it.eq_ignore_ascii_case(level)))
}

fn is_address(text: &str) -> bool {
    if text.parse::<std::net::SocketAddr>().is_ok() {
        return true;
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let name = !host.is_empty()
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-');
    // Four numbers with dots that did not parse above are a mistyped IP address and not a host name.
    let numeric = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    name && !numeric && port.parse::<u16>().is_ok()
}

impl SettingValue {
    /// The value as one line of text, without quotes.
    pub fn to_text(&self) -> String {
        match self {
            SettingValue::Text(text) => text.clone(),
            SettingValue::Number(number) => number.to_string(),
            SettingValue::Duration(time) => duration::format(*time),
            SettingValue::Boolean(flag) => flag.to_string(),
            SettingValue::List(items) => items.join(","),
        }
    }

    /// The value in TOML notation.
    pub fn to_toml(&self) -> String {
        match self {
            SettingValue::Number(number) => number.to_string(),
            SettingValue::Boolean(flag) => flag.to_string(),
            SettingValue::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                format!("[{}]", items.join(", "))
            }
            SettingValue::Text(_) | SettingValue::Duration(_) => quoted(&self.to_text()),
        }
    }

    /// True for an optional value that is not set.
    pub fn is_empty(&self) -> bool {
        matches!(self, SettingValue::Text(text) if text.is_empty())
            || matches!(self, SettingValue::List(items) if items.is_empty())
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: SettingKind, text: &str) -> Result<SettingValue, String> {
        kind.parse(&RawValue::Scalar(text.into()))
    }

    #[test]
    fn addresses_need_a_host_and_a_port() {
        for good in [
            "127.0.0.1:7070",
            "0.0.0.0:0",
            "[::1]:80",
            "localhost:7070",
            "my-host.example:1",
        ] {
            assert!(read(SettingKind::Address, good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "7070",
            ":7070",
            "127.0.0.1",
            "127.0.0.1:70700",
            "127.0.0:7070",
            "http://x:1",
            "a b:1",
        ] {
            assert!(read(SettingKind::Address, bad).is_err(), "{bad}");
        }
        assert!(read(SettingKind::OptionalAddress, "").is_ok());
    }

    #[test]
    fn numbers_keep_their_bounds() {
        let kind = SettingKind::Number(1, 64);
        assert_eq!(read(kind, "64"), Ok(SettingValue::Number(64)));
        for bad in ["0", "65", "-1", "ten", "1.5"] {
            let error = read(kind, bad).expect_err(bad);
            assert!(error.contains("a whole number from 1 to 64"), "{error}");
        }
    }

    #[test]
    fn a_mistyped_word_is_answered_with_the_nearest() {
        let error =
            read(SettingKind::Choice(&["auto", "human", "json"]), "jsno").expect_err("not a word");
        assert!(error.contains("did you mean `json`?"), "{error}");
    }

    #[test]
    fn a_list_is_written_with_commas_or_as_a_list() {
        let both = SettingValue::List(vec!["a".into(), "b".into()]);
        assert_eq!(read(SettingKind::TextList, "a, b"), Ok(both.clone()));
        assert_eq!(
            read(
                SettingKind::Origins,
                "https://Chat.example.com, http://localhost:3000,*"
            ),
            Ok(SettingValue::List(vec![
                "https://chat.example.com".into(),
                "http://localhost:3000".into(),
                "*".into()
            ]))
        );
        for wrong in ["chat.example.com", "https://", "https://a/b", "ftp://a"] {
            assert!(read(SettingKind::Origins, wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            SettingKind::TextList.parse(&RawValue::List(vec!["a".into(), "b".into()])),
            Ok(both)
        );
        assert!(SettingKind::Boolean.parse(&RawValue::List(vec![])).is_err());
    }

    #[test]
    fn a_log_filter_consists_of_known_levels() {
        for good in [
            "warn",
            "INFO",
            "info,parlor_store=debug",
            "off,parlor_chat=trace",
        ] {
            assert!(read(SettingKind::LogFilter, good).is_ok(), "{good}");
        }
        for (bad, hint) in [
            ("warning", Some("warn")),
            ("parlor_store", None),
            ("info,parlor_store=debgu", Some("debug")),
            ("verbose", None),
            ("info,", None),
            ("", None),
        ] {
            let error = read(SettingKind::LogFilter, bad).expect_err(bad);
            assert!(error.contains("is not a level (error, warn"), "{error}");
            let expected = hint.map(|level| format!("did you mean `{level}`?"));
            assert!(expected.is_none_or(|it| error.ends_with(&it)), "{error}");
        }
    }

    #[test]
    fn networks_are_checked_one_by_one() {
        let both = SettingValue::List(vec!["10.0.0.0/8".into(), "::1".into()]);
        assert_eq!(read(SettingKind::Networks, "10.0.0.0/8, ::1"), Ok(both));
        let error = read(SettingKind::Networks, "10.0.0.0/8,proxy").expect_err("a name");
        assert_eq!(
            error,
            "`proxy` is not an address like 10.0.0.1 or a network like 10.0.0.0/8"
        );
    }

    #[test]
    fn node_names_allow_only_characters_that_are_valid_in_keys() {
        assert!(read(SettingKind::Node, "").is_ok() && read(SettingKind::Node, "web-1.eu").is_ok());
        let error = read(SettingKind::Node, "web 1").expect_err("a blank");
        assert!(
            error.starts_with("node id \"web 1\" is not allowed"),
            "{error}"
        );
        assert!(read(SettingKind::RequiredFolder, "").is_err());
    }

    #[test]
    fn an_invalid_database_url_is_rejected_without_repeating_its_password() {
        let error =
            read(SettingKind::DatabaseUrl, "mysql://root:hunter2@host/db").expect_err("not ours");
        assert!(
            error.contains("`mysql:`") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
