//! What a setting's value may be: the kinds, and the one place that reads text into a checked value.
//!
//! A kind accepts the same text from every source, so a file, a variable and a flag cannot disagree.

use std::time::Duration;

use parlor_chat::ids::IdKind;
use parlor_store::StoreUrl;
use tracing_subscriber::EnvFilter;

use super::duration;
use crate::address::Network;

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text; empty means not set.
    Text,
    /// A file or folder; empty means not set.
    Path,
    /// A folder that must be named.
    Folder,
    /// The id of a node; empty means a made one.
    Node,
    /// `host:port`.
    Address,
    /// `host:port`, or empty for off.
    AddressOrOff,
    /// A whole number within these bounds.
    Number(u64, u64),
    /// A length of time, at least this many milliseconds.
    Time(u64),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list; in variables and flags separated by commas.
    List,
    /// Origins of browser pages; in variables and flags separated by commas.
    Origins,
    /// Addresses and networks; in variables and flags separated by commas.
    Networks,
    /// Where the store is.
    StoreUrl,
    /// Where the database is; empty means SQLite in the data folder.
    DatabaseUrl,
    /// A level, or levels by module (`info,parlor_store=debug`).
    LogFilter,
}

/// A value that its kind has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text, a path, an address, a word or a URL.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A length of time.
    Time(Duration),
    /// Yes or no.
    Flag(bool),
    /// Several texts.
    List(Vec<String>),
}

/// A value as its source wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raw {
    /// One value, as text.
    Scalar(String),
    /// A list of values, as texts.
    List(Vec<String>),
    /// Something no setting takes, with its name (`a table`).
    Other(&'static str),
}

impl Kind {
    /// Reads what a source wrote, or says what is wrong with it and what would be right.
    pub fn read(self, raw: &Raw) -> Result<Value, String> {
        match (self, raw) {
            (Kind::List, Raw::List(items)) => Ok(Value::List(items.clone())),
            (Kind::Origins, Raw::List(items)) => self.origins(items.iter().map(String::as_str)),
            (Kind::Networks, Raw::List(items)) => self.networks(items.iter().map(String::as_str)),
            (_, Raw::Scalar(text)) => self.read_text(text),
            (_, Raw::List(_)) => Err(format!(
                "a list is not possible here; expected {}",
                self.expected()
            )),
            (_, Raw::Other(what)) => Err(format!(
                "{what} is not possible here; expected {}",
                self.expected()
            )),
        }
    }

    fn read_text(self, text: &str) -> Result<Value, String> {
        let wrong = || format!("`{text}` is not {}", self.expected());
        match self {
            Kind::Text | Kind::Path => Ok(Value::Text(text.to_owned())),
            Kind::Folder if text.is_empty() => Err(wrong()),
            Kind::Folder => Ok(Value::Text(text.to_owned())),
            Kind::Node if text.is_empty() => Ok(Value::Text(String::new())),
            Kind::Node => match IdKind::Node.check(text) {
                Ok(()) => Ok(Value::Text(text.to_owned())),
                Err(error) => Err(error.to_string()),
            },
            Kind::AddressOrOff if text.is_empty() => Ok(Value::Text(String::new())),
            Kind::Address | Kind::AddressOrOff => is_address(text)
                .then(|| Value::Text(text.to_owned()))
                .ok_or_else(wrong),
            Kind::Number(least, most) => text
                .trim()
                .parse()
                .ok()
                .filter(|n| (least..=most).contains(n))
                .map(Value::Number)
                .ok_or_else(wrong),
            Kind::Time(least) => {
                let time = duration::parse(text)?;
                if time < Duration::from_millis(least) {
                    let least = duration::format(Duration::from_millis(least));
                    return Err(format!("`{text}` is too short; the least is {least}"));
                }
                Ok(Value::Time(time))
            }
            Kind::Flag => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(Value::Flag(true)),
                "false" | "no" | "off" | "0" => Ok(Value::Flag(false)),
                _ => Err(wrong()),
            },
            Kind::Choice(words) => {
                if words.contains(&text) {
                    return Ok(Value::Text(text.to_owned()));
                }
                Err(match super::suggest::nearest(text, words.iter().copied()) {
                    Some(word) => format!("{}; did you mean `{word}`?", wrong()),
                    None => wrong(),
                })
            }
            Kind::List => Ok(Value::List(items(text).map(str::to_owned).collect())),
            Kind::Origins => self.origins(items(text)),
            Kind::Networks => self.networks(items(text)),
            Kind::StoreUrl => match text.parse::<StoreUrl>() {
                Ok(_) => Ok(Value::Text(text.to_owned())),
                Err(error) => Err(error.to_string()),
            },
            Kind::DatabaseUrl => {
                let known = ["", "sqlite:", "postgres://", "postgresql://"];
                let fits = known.iter().any(|start| {
                    if start.is_empty() {
                        text.is_empty()
                    } else {
                        text.starts_with(start)
                    }
                });
                // The text may hold a password, so only its scheme is repeated.
                let scheme = text.split(':').next().unwrap_or_default();
                fits.then(|| Value::Text(text.to_owned()))
                    .ok_or_else(|| format!("`{scheme}:` is not {}", self.expected()))
            }
            Kind::LogFilter => match EnvFilter::try_new(text) {
                Ok(_) if !text.is_empty() => Ok(Value::Text(text.to_owned())),
                _ => Err(wrong()),
            },
        }
    }

    /// Browsers write an origin in lower case and without a path, and so is it compared.
    fn origins<'a>(self, items: impl Iterator<Item = &'a str>) -> Result<Value, String> {
        let origin = |item: &str| {
            let item = item.to_ascii_lowercase();
            let (scheme, host) = item.split_once("://").unwrap_or_default();
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
            let fits = item == "*"
                || ["http", "https"].contains(&scheme)
                    && !host.is_empty()
                    && host.chars().all(plain);
            fits.then(|| item.clone())
                .ok_or_else(|| format!("`{item}` is not {}", self.expected()))
        };
        items.map(origin).collect::<Result<_, _>>().map(Value::List)
    }

    fn networks<'a>(self, items: impl Iterator<Item = &'a str>) -> Result<Value, String> {
        let network = |item: &str| match item.parse::<Network>() {
            Ok(_) => Ok(item.to_owned()),
            Err(_) => Err(format!("`{item}` is not {}", self.expected())),
        };
        items
            .map(network)
            .collect::<Result<_, _>>()
            .map(Value::List)
    }

    /// What this kind accepts, in words that fit after "expected" and "is not".
    pub fn expected(self) -> String {
        match self {
            Kind::Text => "text".into(),
            Kind::Path => "a path".into(),
            Kind::Folder => "a folder; `.` is this one".into(),
            Kind::Node => "a node id, or empty for a made one".into(),
            Kind::Address => "an address like 127.0.0.1:7070".into(),
            Kind::AddressOrOff => "an address like 127.0.0.1:7071, or empty for off".into(),
            Kind::Number(least, most) => format!("a whole number from {least} to {most}"),
            Kind::Time(_) => {
                "a duration: seconds, or text like \"500ms\", \"20s\", \"5m\", \"1h\"".into()
            }
            Kind::Flag => "true or false".into(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::List => "a list of texts".into(),
            Kind::Origins => "an origin like https://chat.example.com, or `*`".into(),
            Kind::Networks => "an address like 10.0.0.1 or a network like 10.0.0.0/8".into(),
            Kind::StoreUrl => {
                "embedded:, redis://, rediss://, redis+sentinel:// or redis+cluster://".into()
            }
            Kind::DatabaseUrl => "sqlite: or postgres://".into(),
            Kind::LogFilter => {
                "a level (error, warn, info, debug, trace, off) or levels by module".into()
            }
        }
    }
}

/// The items of a list that is written as one text.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
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
    // Four numbers with dots that did not parse above are a mistyped address, not a name.
    let numeric = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    name && !numeric && port.parse::<u16>().is_ok()
}

impl Value {
    /// The value as one line of text, without quotes.
    pub fn plain(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Time(time) => duration::format(*time),
            Value::Flag(flag) => flag.to_string(),
            Value::List(items) => items.join(","),
        }
    }

    /// The value in TOML's notation.
    pub fn toml(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Text(_) | Value::Time(_) => quoted(&self.plain()),
        }
    }

    /// True for an optional value that is not set.
    pub fn is_empty(&self) -> bool {
        matches!(self, Value::Text(text) if text.is_empty())
            || matches!(self, Value::List(items) if items.is_empty())
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> Result<Value, String> {
        kind.read(&Raw::Scalar(text.into()))
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
            assert!(read(Kind::Address, good).is_ok(), "{good}");
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
            assert!(read(Kind::Address, bad).is_err(), "{bad}");
        }
        assert!(read(Kind::AddressOrOff, "").is_ok());
    }

    #[test]
    fn numbers_keep_their_bounds() {
        let kind = Kind::Number(1, 64);
        assert_eq!(read(kind, "64"), Ok(Value::Number(64)));
        for bad in ["0", "65", "-1", "ten", "1.5"] {
            let error = read(kind, bad).expect_err(bad);
            assert!(error.contains("a whole number from 1 to 64"), "{error}");
        }
    }

    #[test]
    fn a_mistyped_word_is_answered_with_the_nearest() {
        let error = read(Kind::Choice(&["auto", "human", "json"]), "jsno").expect_err("not a word");
        assert!(error.contains("did you mean `json`?"), "{error}");
    }

    #[test]
    fn a_list_is_written_with_commas_or_as_a_list() {
        let both = Value::List(vec!["a".into(), "b".into()]);
        assert_eq!(read(Kind::List, "a, b"), Ok(both.clone()));
        assert_eq!(
            read(
                Kind::Origins,
                "https://Chat.example.com, http://localhost:3000,*"
            ),
            Ok(Value::List(vec![
                "https://chat.example.com".into(),
                "http://localhost:3000".into(),
                "*".into()
            ]))
        );
        for wrong in ["chat.example.com", "https://", "https://a/b", "ftp://a"] {
            assert!(read(Kind::Origins, wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            Kind::List.read(&Raw::List(vec!["a".into(), "b".into()])),
            Ok(both)
        );
        assert!(Kind::Flag.read(&Raw::List(vec![])).is_err());
    }

    #[test]
    fn networks_are_checked_one_by_one() {
        let both = Value::List(vec!["10.0.0.0/8".into(), "::1".into()]);
        assert_eq!(read(Kind::Networks, "10.0.0.0/8, ::1"), Ok(both));
        let error = read(Kind::Networks, "10.0.0.0/8,proxy").expect_err("a name");
        assert_eq!(
            error,
            "`proxy` is not an address like 10.0.0.1 or a network like 10.0.0.0/8"
        );
    }

    #[test]
    fn a_node_is_called_what_can_stand_in_a_key() {
        assert!(read(Kind::Node, "").is_ok() && read(Kind::Node, "web-1.eu").is_ok());
        let error = read(Kind::Node, "web 1").expect_err("a blank");
        assert!(
            error.starts_with("node id \"web 1\" is not allowed"),
            "{error}"
        );
        assert!(read(Kind::Folder, "").is_err());
    }

    #[test]
    fn a_bad_database_url_is_refused_without_repeating_its_password() {
        let error = read(Kind::DatabaseUrl, "mysql://root:hunter2@host/db").expect_err("not ours");
        assert!(
            error.contains("`mysql:`") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
