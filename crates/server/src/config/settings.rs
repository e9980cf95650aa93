//! The table of settings. Parsing, `--print-config`, suggestions, docs/config.md and parlor.example.toml are derived
//! from it.
//!
//! Each setting is one row here. `ttl.*` and `keys.*` come from the chat crate, which owns the key layouts.

use std::borrow::Cow;
use std::sync::LazyLock;

use parlor_chat::keys::{EndpointSeparator, TtlName};
use parlor_chat::limits::MAX_REQUESTS;

use super::key_settings;
use super::setting_kind::SettingKind;

/// A setting. Its name is stable.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Name in the form `section.key`.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: SettingKind,
    /// Default as text; empty means "not set".
    pub default: Cow<'static, str>,
    /// Text that the docs show instead of an empty default.
    pub default_display: &'static str,
    /// Description for the docs, in full sentences.
    pub description: Cow<'static, str>,
    /// True for a secret, which is never printed.
    pub secret: bool,
    /// False while no code reads the setting.
    pub is_implemented: bool,
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

    /// Name of the environment variable: `PARLOR_SECTION__KEY`.
    pub fn variable(&self) -> String {
        format!("PARLOR_{}", self.name.replacen('.', "__", 1).to_uppercase())
    }

    pub(super) fn default_display(mut self, note: &'static str) -> Setting {
        self.default_display = note;
        self
    }

    fn secret(mut self) -> Setting {
        self.secret = true;
        self
    }

    fn not_implemented(mut self) -> Setting {
        self.is_implemented = false;
        self
    }
}

/// Declares a setting that is in use and not secret.
pub(super) fn setting(
    name: &'static str,
    kind: SettingKind,
    default: impl Into<Cow<'static, str>>,
    doc: impl Into<Cow<'static, str>>,
) -> Setting {
    let (default, doc) = (default.into(), doc.into());
    Setting {
        name,
        kind,
        default,
        default_display: "",
        description: doc,
        secret: false,
        is_implemented: true,
    }
}

/// All settings, in the order of the docs.
pub fn all_settings() -> &'static [Setting] {
    static ALL: LazyLock<Vec<Setting>> = LazyLock::new(build_settings);
    &ALL
}

/// The setting with this name.
pub fn find_setting(name: &str) -> Option<&'static Setting> {
    all_settings().iter().find(|setting| setting.name == name)
}

/// All sections, in the order of the docs.
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = all_settings().iter().map(Setting::section).collect();
    sections.dedup();
    sections
}

const JWT_ALGORITHMS: &[&str] = &["HS256", "RS256", "ES256", "EdDSA"];
const LOG_FORMATS: &[&str] = &["auto", "human", "json"];

#[rustfmt::skip]
fn build_settings() -> Vec<Setting> {
    use SettingKind::{Address, OptionalAddress, Choice, DatabaseUrl, Boolean, RequiredFolder, LogFilter, Networks, Node, Number, Origins, Path, StoreUrl, Text, Duration};
    let mut table = vec![
        setting("server.http", Address, "127.0.0.1:7070", "Address on which HTTP and Socket.IO listen."),
        setting("server.grpc", OptionalAddress, "127.0.0.1:7071", "Address on which gRPC listens; empty disables gRPC."),
        setting("server.data", RequiredFolder, "./data", "Folder for everything that the server keeps on disk."),
        setting("server.node", Node, "", "Id of this node; each node of a store needs its own.").default_display("host name + random"),
        setting("server.allowed_origins", Origins, "", "Origins of browser pages that may use the server, besides its own origin: `https://chat.example.com`, or `*` for all.").default_display("same origin"),
        setting("server.trusted_proxies", Networks, "", "Proxies whose header `X-Forwarded-For` determines the client address: addresses, or networks like `10.0.0.0/8`.").default_display("none"),
        setting("store.url", StoreUrl, "embedded:", "URL of the store: `embedded:`, `redis://`, `rediss://`, `redis+sentinel://` or `redis+cluster://`."),
        setting("store.password", Text, "", "Password of the store, used if `store.url` contains none.").secret(),
        setting("store.timeout", Duration(10), "1s", "Time limit of one request to the store."),
        setting("store.connections", Number(1, 64), "1", "Number of multiplexed connections to Redis."),
        setting("store.ca_cert", Path, "", "PEM file of the certificate authority to trust instead of the system's, for `rediss://`."),
        setting("store.client_cert", Path, "", "PEM file of the client certificate for Redis."),
        setting("store.client_key", Path, "", "PEM file of the private key of `store.client_cert`."),
        setting("store.resp", OptionalAddress, "", "Address on which the embedded store accepts Redis clients; empty disables it.").default_display("off").not_implemented(),
        setting("store.resp_password", Text, "", "Password of the RESP port.").secret().not_implemented(),
        setting("database.url", DatabaseUrl, "", "URL of the database: `sqlite:` or `postgres://`.").default_display("`sqlite:` in the data folder"),
        setting("database.connections", Number(1, 1_000), "8", "Maximum number of connections to the database, in addition to those that write messages."),
        setting("database.timeout", Duration(100), "5s", "Time limit of one statement, and of the wait for a free connection."),
        setting("database.synchronous", Choice(&["full", "normal"]), "full", "Durability of commits to SQLite: `full` waits until the data is on disk, `normal` until the operating system has it (a power failure may lose the last commits)."),
    ];
    table.extend(key_settings::key_layout_settings());
    table.extend([
        key_settings::ttl_setting(TtlName::NodeLease),
        setting("presence.grace", Duration(0), "5s", "How long a user stays online after the last connection was lost."),
        setting("auth.secret", Text, "", "Secret that signs tokens (HS256). For rotation, set two, separated by a comma: the first signs, both verify. Without one, the server generates a random secret and keeps it in the file `auth.secret` of the data folder; several servers need a common one.").default_display("generated").secret(),
        setting("auth.algorithm", Choice(JWT_ALGORITHMS), "HS256", "The only accepted signature algorithm."),
        setting("auth.public_key", Text, "", "Public key for RS256, ES256 or EdDSA: a PEM text, or the path of a PEM file."),
        setting("auth.jwks", Text, "", "JSON Web Key Set (JWKS) for RS256, ES256 or EdDSA: the path of a file, or an `https://` or `http://` URL. Redirects are not followed."),
        setting("auth.audience", Text, "", "Required audience (claim `aud`) of a token."),
        setting("auth.issuer", Text, "", "Required issuer (claim `iss`) of a token."),
        setting("messages.max_content", Number(1, 65_536), "8192", "Maximum size of the text of a message, in bytes."),
        setting("messages.max_metadata", Number(2, 65_536), "4096", "Maximum size of the metadata of a message, in bytes."),
        setting("messages.edit_window", Duration(0), "5m", "How long the sender may edit or delete a message after sending it."),
        setting("limits.messages", Number(1, 10_000), "20", "Number of messages that a user may send within `limits.message_window`."),
        key_settings::ttl_setting(TtlName::MessageWindow),
        setting("limits.messages_without_store", Choice(&["open", "closed"]), "open", "Whether messages are accepted while the store is unavailable and cannot count them: `open` accepts them, `closed` rejects them."),
        setting("limits.http", Number(1, MAX_REQUESTS as u64), "600", "Number of requests that a user, or an address without a valid token, may make within `limits.http_window`, over HTTP, gRPC and Socket.IO together."),
        setting("limits.http_window", Duration(1_000), "60s", "Length of the window of `limits.http`."),
        setting("gateway.ping_interval", Duration(1_000), "25s", "Interval between two pings to a Socket.IO client, at most half of `ttl.presence`: a reply counts as a heartbeat. If it is not set and the default is longer than that, it is a third of `ttl.presence`."),
        setting("gateway.ping_timeout", Duration(1_000), "20s", "Time limit for the reply to a ping; a client that does not reply in time is disconnected."),
        setting("gateway.handshake_timeout", Duration(100), "10s", "Time limit for the handshake of a Socket.IO client, including the check of its token."),
        setting("gateway.max_frame", Number(1_024, 16_777_216), "65536", "Maximum size of one packet from a client, in bytes; a client that sends a larger packet is disconnected."),
        setting("gateway.buffer", Number(4_096, 1_073_741_824), "1048576", "Maximum bytes in the send queue of one client; a client that reads too slowly is disconnected."),
        setting("gateway.events", Number(1, 10_000), "50", "Number of events per second that a socket may send on average."),
        setting("gateway.event_burst", Number(1, 100_000), "200", "Burst of events a socket may send; a client that keeps exceeding it is disconnected."),
        setting("gateway.conversations", Number(1, 10_000), "500", "Maximum number of conversations that a socket may have joined at the same time."),
        setting("gateway.connections", Number(1, 10_000_000), "100000", "Maximum number of Socket.IO connections of this node."),
        setting("gateway.connections_per_address", Number(1, 10_000_000), "20000", "Maximum number of Socket.IO connections of this node from one address. An IPv6 address counts as its /64 network."),
        setting("gateway.handshakes", Number(1, 1_000_000), "200", "Number of handshakes per second that this node accepts from one address on average. An IPv6 address counts as its /64 network."),
        setting("gateway.handshake_burst", Number(1, 10_000_000), "20000", "Burst of handshakes that this node accepts from one address."),
        setting("gateway.recovery", Duration(0), "120s", "How long the server keeps a disconnected socket so that the client can recover it; `0s` disables recovery."),
        setting("gateway.recovery_frames", Number(1, 100_000), "1000", "Maximum number of events that are kept for the recovery of one socket."),
        setting("notifications.channel", Text, "", "Channel that new messages are published to instead of `events:message.created`. The name is used as it is, without `keys.prefix`.").default_display("`events:message.created`"),
        setting("unread.fanout_limit", Number(0, 10_000), "32", "Maximum number of members for which sending a message also updates the stored unread counter of each member."),
        setting("sessions.single_device", Boolean, "false", "If `true`, a new session of a user from another device ends the previous one."),
        setting("sessions.anonymous", Boolean, "false", "If `true`, visitors without an account can get a read-only session with `POST /v1/sessions/anonymous`."),
        setting("stats.count_localhost", Boolean, "false", "If `true`, requests from this machine count in the documented statistics keys.").not_implemented(),
        setting("stats.endpoint_separator", Choice(EndpointSeparator::NAMES), EndpointSeparator::Space.name(), "Separator between method and route in the statistics keys."),
        setting("desk.capacity", Number(1, 10_000), "10", "Maximum number of conversations that are assigned to an agent at the same time.").not_implemented(),
        setting("push.provider", Choice(&["log"]), "log", "Provider that sends push notifications.").not_implemented(),
        setting("log.level", LogFilter, "info", "Log filter: `error`, `warn`, `info`, `debug`, `trace`, `off`, or levels by module (`info,parlor_store=debug`)."),
        setting("log.format", Choice(LOG_FORMATS), "auto", "Log format: `human`, `json` (one object per line), or `auto`: `human` on a terminal, `json` otherwise."),
    ]);
    table
}

#[cfg(test)]
mod tests {
    use super::super::setting_kind::RawValue;
    use super::*;

    #[test]
    fn every_default_is_accepted_by_its_own_kind() {
        for setting in all_settings() {
            let raw = RawValue::Scalar(setting.default.to_string());
            assert!(
                setting.kind.parse(&raw).is_ok(),
                "{}: {:?}",
                setting.name,
                setting.kind.parse(&raw)
            );
        }
    }

    #[test]
    fn names_are_unique_have_one_dot_and_stay_together_by_section() {
        let mut names: Vec<_> = all_settings().iter().map(|setting| setting.name).collect();
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
        let setting = find_setting("store.ca_cert").expect("in the table");
        assert_eq!(setting.variable(), "PARLOR_STORE__CA_CERT");
    }
}
