//! The table of settings. Parsing, `--print-config`, suggestions, docs/config.md and parlor.example.toml all derive from it.
//!
//! A setting is one line here. `ttl.*` and `keys.*` come from the chat crate, which owns the key layouts.

use std::borrow::Cow;
use std::sync::LazyLock;

use parlor_chat::ids::EndpointSeparator;
use parlor_chat::keys::TtlName;
use parlor_chat::limits::MOST_REQUESTS;

use super::kind::Kind;
use super::layouts;

/// One setting: its name is part of the product.
#[derive(Clone, Debug)]
pub struct Setting {
    /// `section.key`.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// The default in text form; empty = not set.
    pub default: Cow<'static, str>,
    /// What the default is called in the docs, where an empty text says too little.
    pub default_note: &'static str,
    /// One sentence for the reference.
    pub doc: Cow<'static, str>,
    /// Never shown.
    pub secret: bool,
    /// False while nothing reads it.
    pub effective: bool,
}

impl Setting {
    /// The part before the dot.
    pub fn section(&self) -> &'static str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// The part after the dot.
    pub fn key(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, key)| key)
    }

    /// The environment form: `PARLOR_SECTION__KEY`.
    pub fn variable(&self) -> String {
        format!("PARLOR_{}", self.name.replacen('.', "__", 1).to_uppercase())
    }

    pub(super) fn note(mut self, note: &'static str) -> Setting {
        self.default_note = note;
        self
    }

    fn secret(mut self) -> Setting {
        self.secret = true;
        self
    }

    fn later(mut self) -> Setting {
        self.effective = false;
        self
    }
}

/// A setting that is shown and in effect.
pub(super) fn setting(
    name: &'static str,
    kind: Kind,
    default: impl Into<Cow<'static, str>>,
    doc: impl Into<Cow<'static, str>>,
) -> Setting {
    let (default, doc) = (default.into(), doc.into());
    Setting {
        name,
        kind,
        default,
        default_note: "",
        doc,
        secret: false,
        effective: true,
    }
}

/// Every setting, in the order of the reference.
pub fn all() -> &'static [Setting] {
    static ALL: LazyLock<Vec<Setting>> = LazyLock::new(table);
    &ALL
}

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    all().iter().find(|setting| setting.name == name)
}

/// Every section, in the order of the reference.
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = all().iter().map(Setting::section).collect();
    sections.dedup();
    sections
}

const ALGORITHMS: &[&str] = &["HS256", "RS256", "ES256", "EdDSA"];
const FORMATS: &[&str] = &["auto", "human", "json"];

#[rustfmt::skip]
fn table() -> Vec<Setting> {
    use Kind::{Address, AddressOrOff, Choice, DatabaseUrl, Flag, Folder, LogFilter, Networks, Node, Number, Origins, Path, StoreUrl, Text, Time};
    let mut table = vec![
        setting("server.http", Address, "127.0.0.1:7070", "Where HTTP listens."),
        setting("server.grpc", AddressOrOff, "127.0.0.1:7071", "Where gRPC listens; empty for off."),
        setting("server.data", Folder, "./data", "The folder of everything kept on disk."),
        setting("server.node", Node, "", "The id of this node.").note("host name + random"),
        setting("server.allowed_origins", Origins, "", "Origins whose pages may call, beyond the server's own: `https://chat.example.com`, or `*` for all.").note("same origin"),
        setting("server.trusted_proxies", Networks, "", "Proxies whose `X-Forwarded-For` counts: addresses, or networks like `10.0.0.0/8`.").note("none"),
        setting("store.url", StoreUrl, "embedded:", "Where the store is: `embedded:`, `redis://`, `rediss://`, `redis+sentinel://` or `redis+cluster://`."),
        setting("store.password", Text, "", "The password for a `store.url` that carries none.").secret(),
        setting("store.timeout", Time(10), "1s", "How long one request to the store may take."),
        setting("store.connections", Number(1, 64), "1", "Multiplexed connections to Redis."),
        setting("store.ca_cert", Path, "", "The certificate authority (PEM) to trust instead of the system's, for `rediss://`."),
        setting("store.client_cert", Path, "", "The client certificate (PEM) to show to Redis."),
        setting("store.client_key", Path, "", "The key (PEM) of `store.client_cert`."),
        setting("store.resp", AddressOrOff, "", "Where the embedded store answers Redis clients; empty for off.").note("off").later(),
        setting("store.resp_password", Text, "", "The password of the RESP port.").secret().later(),
        setting("database.url", DatabaseUrl, "", "Where the database is: `sqlite:` or `postgres://`.").note("`sqlite:` in the data folder"),
        setting("database.connections", Number(1, 1_000), "8", "Connections to the database, beyond those that write messages."),
        setting("database.timeout", Time(100), "5s", "How long one statement, or the wait for a connection, may take."),
        setting("database.synchronous", Choice(&["full", "normal"]), "full", "When a commit to SQLite counts: `full` when it is on disk, `normal` when the operating system has it (a power cut may lose the last ones)."),
    ];
    table.extend(layouts::settings());
    table.extend([
        layouts::time(TtlName::NodeLease),
        setting("presence.grace", Time(0), "5s", "How long a user stays online after the last connection was lost."),
        setting("auth.secret", Text, "", "The secret that signs tokens (HS256). Two, separated by a comma, for rotation: the first signs, both verify. Without one, a random secret is made and kept in the file `auth.secret` of the data folder; several servers need a common one.").note("generated").secret(),
        setting("auth.algorithm", Choice(ALGORITHMS), "HS256", "The one signature algorithm that is accepted."),
        setting("auth.public_key", Text, "", "The public key for RS256, ES256 or EdDSA: a PEM, or the file that holds it."),
        setting("auth.jwks", Text, "", "The JSON Web Key Set for RS256, ES256 or EdDSA: a file, or an `https://` or `http://` address without redirects."),
        setting("auth.audience", Text, "", "The `aud` a token must have."),
        setting("auth.issuer", Text, "", "The `iss` a token must have."),
        setting("messages.max_content", Number(1, 65_536), "8192", "Most bytes of the text of a message."),
        setting("messages.max_metadata", Number(2, 65_536), "4096", "Most bytes of the metadata of a message."),
        setting("messages.edit_window", Time(0), "5m", "How long a sender may edit or delete a message."),
        setting("limits.messages", Number(1, 10_000), "20", "Messages a user may send within `limits.message_window`."),
        layouts::time(TtlName::MessageWindow),
        setting("limits.messages_without_store", Choice(&["open", "closed"]), "open", "What becomes of messages while the store cannot count them: `open` takes them, `closed` refuses them."),
        setting("limits.http", Number(1, MOST_REQUESTS as u64), "600", "Requests a user, or an address without a valid token, may make within `limits.http_window`, all gateways together."),
        setting("limits.http_window", Time(1_000), "60s", "The window of `limits.http`."),
        setting("gateway.ping_interval", Time(1_000), "25s", "How often a connected Socket.IO client is pinged."),
        setting("gateway.ping_timeout", Time(1_000), "20s", "How long a client may take to answer a ping before it is taken to be lost."),
        setting("gateway.handshake_timeout", Time(100), "10s", "How long a client may take to show its token, and Parlor to let it in."),
        setting("gateway.max_frame", Number(1_024, 16_777_216), "65536", "Most bytes of one packet of a client; who sends a larger one is cut."),
        setting("gateway.buffer", Number(4_096, 1_073_741_824), "1048576", "Most bytes that wait for one client that reads slowly; with more it is cut."),
        setting("gateway.events", Number(1, 10_000), "50", "Events a socket may send per second on average."),
        setting("gateway.event_burst", Number(1, 100_000), "200", "Events a socket may send at once; who goes on for long above it is cut."),
        setting("gateway.conversations", Number(1, 10_000), "500", "Conversations a socket may have joined at a time."),
        setting("gateway.connections", Number(1, 10_000_000), "100000", "Connections of this node."),
        setting("gateway.connections_per_address", Number(1, 10_000_000), "20000", "Connections of this node from one address."),
        setting("gateway.handshakes", Number(1, 1_000_000), "200", "Handshakes from one address per second on average, on this node."),
        setting("gateway.handshake_burst", Number(1, 10_000_000), "20000", "Handshakes from one address at once, on this node."),
        setting("gateway.recovery", Time(0), "120s", "How long a lost socket is held, so that its client can go on where it was; `0s` for not at all."),
        setting("gateway.recovery_frames", Number(1, 100_000), "1000", "Most events that are kept for a lost socket."),
        setting("notifications.channel", Text, "", "Another name for the channel `events:message.created`, used as it is, without prefix.").note("`events:message.created`"),
        setting("unread.fanout_limit", Number(0, 10_000), "32", "Up to how many members each member's unread counter is written with a message."),
        setting("sessions.single_device", Flag, "false", "A new session of a user ends the former one."),
        setting("sessions.anonymous", Flag, "false", "Visitors without an account may come in with `POST /v1/sessions/anonymous`, and read."),
        setting("stats.count_localhost", Flag, "false", "Requests from this machine count in the documented statistics keys.").later(),
        setting("stats.endpoint_separator", Choice(EndpointSeparator::NAMES), EndpointSeparator::Space.name(), "What stands between method and route in the statistics keys."),
        setting("desk.capacity", Number(1, 10_000), "10", "Conversations an agent may have at a time.").later(),
        setting("push.provider", Choice(&["log"]), "log", "How push notifications are sent.").later(),
        setting("log.level", LogFilter, "info", "What is logged: `error`, `warn`, `info`, `debug`, `trace`, `off`, or levels by module (`info,parlor_store=debug`)."),
        setting("log.format", Choice(FORMATS), "auto", "`human`, `json` (one object a line), or `auto`: human on a terminal, JSON otherwise."),
    ]);
    table
}

#[cfg(test)]
mod tests {
    use super::super::kind::Raw;
    use super::*;

    #[test]
    fn every_default_is_accepted_by_its_own_kind() {
        for setting in all() {
            let raw = Raw::Scalar(setting.default.to_string());
            assert!(
                setting.kind.read(&raw).is_ok(),
                "{}: {:?}",
                setting.name,
                setting.kind.read(&raw)
            );
        }
    }

    #[test]
    fn names_are_unique_have_one_dot_and_stay_together_by_section() {
        let mut names: Vec<_> = all().iter().map(|setting| setting.name).collect();
        assert!(
            names.iter().all(|name| name.matches('.').count() == 1),
            "{names:?}"
        );
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        let mut sections = sections();
        let count = sections.len();
        sections.sort_unstable();
        sections.dedup();
        assert_eq!(sections.len(), count);
    }

    #[test]
    fn the_variable_is_the_name_in_capitals_with_two_underscores() {
        let setting = find("store.ca_cert").expect("in the table");
        assert_eq!(setting.variable(), "PARLOR_STORE__CA_CERT");
    }
}
