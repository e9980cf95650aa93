//! Builds the checked [`Config`] from the values, and checks settings that depend on each other.

use std::path::{Path, PathBuf};

use parlor_chat::database::{self, DatabaseUrl, Synchronous};
use parlor_chat::ids::NodeId;
use parlor_chat::keys::KeySettings;
use parlor_chat::limits::{MAX_WINDOW, RateLimit, RateLimitAlgorithm};
use parlor_chat::{MessageOptions, SessionOptions};
use parlor_socketio::{RecoveryOptions, SocketIoOptions};
use parlor_store::{StoreOptions, StoreUrl};
use rand::RngExt;

use super::duration;
use super::environment::Environment;
use super::key_settings;
use super::layer::{ConfigProblem, SettingOrigin};
use super::values::SettingValues;
use crate::auth::{AuthConfig, AuthSettings};
use crate::client_address::{TrustedProxies, parse_network};

/// Maximum bytes of the replay buffers of all sockets together.
const MAX_REPLAY_BYTES: usize = 256 * 1024 * 1024;

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The process: addresses, data folder, node id.
    pub server: ServerConfig,
    /// Options of the store.
    pub store: StoreOptions,
    /// Options of the database.
    pub database: database::DatabaseOptions,
    /// Layouts, prefix and TTLs of the keys.
    pub keys: KeySettings,
    /// Options of the chat crate.
    pub chat: parlor_chat::ChatOptions,
    /// Limit of requests per user, or per address without a valid token, on all interfaces together.
    pub request_limit: RateLimit,
    /// Limits of the Socket.IO gateway.
    pub socketio: SocketIoConfig,
    /// Authentication: which tokens are accepted.
    pub auth: AuthConfig,
    /// Logging.
    pub log: LogConfig,
}

/// Settings of the process.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address on which HTTP and Socket.IO listen.
    pub http: String,
    /// Folder for everything that is kept on disk.
    pub data_folder: PathBuf,
    /// Address on which gRPC listens; `None` disables gRPC.
    pub grpc: Option<String>,
    /// Id of this node.
    pub node: NodeId,
    /// Origins of browser pages that may use the server, besides its own.
    pub allowed_origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` determines the client address.
    pub trusted_proxies: TrustedProxies,
}

/// Timeouts and limits of the Socket.IO gateway.
#[derive(Clone, Debug)]
pub struct SocketIoConfig {
    /// Timeouts and limits of connections and packets.
    pub server: SocketIoOptions,
    /// Events that one socket may send.
    pub event_rate: BurstRate,
    /// Conversations that one socket may have joined at the same time.
    pub max_joined_conversations: usize,
    /// Handshakes accepted from one address.
    pub handshake_rate: BurstRate,
}

/// Rate with a burst.
#[derive(Clone, Copy, Debug)]
pub struct BurstRate {
    /// Average per second.
    pub per_second: u32,
    /// Maximum at once.
    pub burst: u32,
}

/// Settings of logging.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Filter, as in `RUST_LOG`.
    pub level: String,
    /// Output format.
    pub format: LogFormat,
}

/// Output format of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `Human` on a terminal, `Json` otherwise.
    Auto,
    /// Text lines for people.
    Human,
    /// One JSON object per line.
    Json,
}

/// Builds the configuration. The errors are settings that contradict each other or refer to files that cannot be read.
pub(super) fn build_config(
    values: &SettingValues,
    environment: &Environment,
) -> Result<Config, Vec<ConfigProblem>> {
    let mut problems = Vec::new();
    let keys = key_settings::key_settings(values);
    if let Err(error) = keys.validate() {
        problems.push(ConfigProblem::new(
            origin_of_first_set(values, error.settings()),
            error.to_string(),
        ));
    }
    problems.extend(check_ping_interval(values));
    let url = store_url(values);
    if values.optional("store.client_cert").is_some()
        != values.optional("store.client_key").is_some()
    {
        let message = "store.client_cert and store.client_key belong together; set both or neither";
        let place = origin_of_first_set(values, &["store.client_cert", "store.client_key"]);
        problems.push(ConfigProblem::new(place, message));
    }
    for name in ["store.ca_cert", "store.client_cert", "store.client_key"] {
        if let Some(file) = values.optional(name)
            && let Err(error) = std::fs::File::open(file)
        {
            problems.push(ConfigProblem::new(
                values.origin(name),
                format!("{name}: {file} cannot be read: {error}"),
            ));
        }
    }
    let url = url.map_err(|problem| problems.push(problem));
    let auth = auth_config(values).map_err(|problem| problems.push(problem));
    let node = node_id(values, environment).map_err(|problem| problems.push(problem));
    let data = PathBuf::from(values.text("server.data"));
    let database = database_options(values, &data).map_err(|problem| problems.push(problem));
    let calls = request_limit(values).map_err(|problem| problems.push(problem));
    let (Ok(url), Ok(database), Ok(auth), Ok(node), Ok(calls), true) =
        (url, database, auth, node, calls, problems.is_empty())
    else {
        return Err(problems);
    };
    Ok(Config {
        server: ServerConfig {
            http: values.text("server.http").to_owned(),
            grpc: values.optional("server.grpc").map(str::to_owned),
            allowed_origins: values.list("server.allowed_origins"),
            trusted_proxies: trusted_proxies(values),
            data_folder: data.clone(),
            node,
        },
        store: store_options(values, url, data),
        database,
        keys,
        chat: chat_options(values),
        request_limit: calls,
        socketio: socketio_config(values),
        auth,
        log: LogConfig {
            level: values.text("log.level").to_owned(),
            format: parse_log_format(values.text("log.format")),
        },
    })
}

/// The replies to pings keep a connected device present, so two pings must fit into the time after which it expires.
fn check_ping_interval(values: &SettingValues) -> Option<ConfigProblem> {
    let names = ["gateway.ping_interval", "ttl.presence"];
    let [ping, ttl] = names.map(|name| values.time(name));
    (ping > ttl / 2).then(|| {
        let message = format!(
            "gateway.ping_interval is {} and ttl.presence {}; a connected client would go offline between two pings, so set gateway.ping_interval to at most {}",
            duration::format(ping),
            duration::format(ttl),
            duration::format(ttl / 2)
        );
        ConfigProblem::new(origin_of_first_set(values, &names), message)
    })
}

fn chat_options(values: &SettingValues) -> parlor_chat::ChatOptions {
    parlor_chat::ChatOptions {
        grace_period: values.time("presence.grace"),
        messages: MessageOptions {
            max_content_bytes: saturating_u32(values.number("messages.max_content")) as usize,
            max_metadata_bytes: saturating_u32(values.number("messages.max_metadata")) as usize,
            edit_window: values.time("messages.edit_window"),
            max_messages_per_window: saturating_u32(values.number("limits.messages")),
            accept_without_store: values.text("limits.messages_without_store") == "open",
        },
        fanout_limit: values.number("unread.fanout_limit"),
        sessions: SessionOptions {
            single_device: values.flag("sessions.single_device"),
            allow_visitors: values.flag("sessions.anonymous"),
            // The start of the server sets the issuer, after the keys are loaded.
            visitor_token_issuer: None,
        },
    }
}

fn socketio_config(values: &SettingValues) -> SocketIoConfig {
    let number = |name| usize::try_from(values.number(name)).unwrap_or(usize::MAX);
    let rate = |average, burst| BurstRate {
        per_second: saturating_u32(values.number(average)),
        burst: saturating_u32(values.number(burst)),
    };
    let max_send_queue_bytes = number("gateway.buffer");
    let window = values.time("gateway.recovery");
    let recovery = (!window.is_zero()).then(|| RecoveryOptions {
        window,
        max_frames: number("gateway.recovery_frames"),
        max_bytes: max_send_queue_bytes,
        max_total_bytes: MAX_REPLAY_BYTES,
    });
    let handshake_timeout = values.time("gateway.handshake_timeout");
    SocketIoConfig {
        server: SocketIoOptions {
            ping_interval: values.time("gateway.ping_interval"),
            ping_timeout: values.time("gateway.ping_timeout"),
            connect_timeout: handshake_timeout,
            upgrade_timeout: handshake_timeout,
            max_payload: number("gateway.max_frame"),
            max_send_queue_bytes,
            recovery,
            max_sessions: number("gateway.connections"),
            max_sessions_per_address: number("gateway.connections_per_address"),
            client_network: parlor_chat::ids::client_network,
            ..SocketIoOptions::default()
        },
        event_rate: rate("gateway.events", "gateway.event_burst"),
        max_joined_conversations: number("gateway.conversations"),
        handshake_rate: rate("gateway.handshakes", "gateway.handshake_burst"),
    }
}

fn request_limit(values: &SettingValues) -> Result<RateLimit, ConfigProblem> {
    let (name, window) = ("limits.http_window", values.time("limits.http_window"));
    let requests = saturating_u32(values.number("limits.http"));
    RateLimit::new(RateLimitAlgorithm::Gcra, requests, window).map_err(|_| {
        let longest = duration::format(MAX_WINDOW);
        let message = format!("{name}: the maximum is {longest}");
        ConfigProblem::new(values.origin(name), message)
    })
}

/// Converts a number whose bounds are far below `u32::MAX`.
fn saturating_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn trusted_proxies(values: &SettingValues) -> TrustedProxies {
    let networks = values.list("server.trusted_proxies");
    // `SettingKind::Networks` has checked each of them.
    let networks: Vec<_> = networks.iter().filter_map(|it| parse_network(it)).collect();
    TrustedProxies::new(&networks)
}

/// Origin of the first of these settings that a source has set.
fn origin_of_first_set<'a>(values: &'a SettingValues, names: &[&str]) -> &'a SettingOrigin {
    let mut origins = names.iter().map(|name| values.origin(name));
    let written = origins.find(|origin| **origin != SettingOrigin::Default);
    written.unwrap_or(&SettingOrigin::Default)
}

fn store_options(values: &SettingValues, url: StoreUrl, data: PathBuf) -> StoreOptions {
    let path = |name| values.optional(name).map(PathBuf::from);
    StoreOptions {
        data_folder: (url == StoreUrl::Embedded).then_some(data),
        url,
        request_timeout: values.time("store.timeout"),
        connections_per_server: usize::try_from(values.number("store.connections")).unwrap_or(1),
        key_prefix: values.text("keys.prefix").to_owned(),
        ca_cert: path("store.ca_cert"),
        client_cert: path("store.client_cert"),
        client_key: path("store.client_key"),
        ..StoreOptions::default()
    }
}

/// `store.url`, with `store.password` if the URL contains no password.
fn store_url(values: &SettingValues) -> Result<StoreUrl, ConfigProblem> {
    let wrong =
        |error| ConfigProblem::new(values.origin("store.url"), format!("store.url: {error}"));
    let mut url: StoreUrl = values.text("store.url").parse().map_err(wrong)?;
    set_default_password(&mut url, values);
    Ok(url)
}

/// Sets `store.password`, if the URL contains no password.
pub(crate) fn set_default_password(url: &mut StoreUrl, values: &SettingValues) {
    if let StoreUrl::Redis { credentials, .. }
    | StoreUrl::Sentinel { credentials, .. }
    | StoreUrl::Cluster { credentials, .. } = url
    {
        let set = || values.optional("store.password").map(str::to_owned);
        credentials.password = credentials.password.take().or_else(set);
    }
}

fn database_options(
    values: &SettingValues,
    data: &Path,
) -> Result<database::DatabaseOptions, ConfigProblem> {
    let name = "database.url";
    let wrong = |error| ConfigProblem::new(values.origin(name), format!("{name}: {error}"));
    let url = DatabaseUrl::parse(values.text(name), data).map_err(wrong)?;
    Ok(database::DatabaseOptions {
        max_connections: u32::try_from(values.number("database.connections")).unwrap_or(1),
        timeout: values.time("database.timeout"),
        synchronous: match values.text("database.synchronous") {
            "normal" => Synchronous::Normal,
            _ => Synchronous::Full,
        },
        ..database::DatabaseOptions::new(url)
    })
}

fn auth_config(values: &SettingValues) -> Result<AuthConfig, ConfigProblem> {
    let written = AuthSettings {
        secret: values.text("auth.secret"),
        algorithm: values.text("auth.algorithm"),
        public_key: values.text("auth.public_key"),
        jwks: values.text("auth.jwks"),
        audience: values.text("auth.audience"),
        issuer: values.text("auth.issuer"),
    };
    AuthConfig::new(&written).map_err(|error| {
        ConfigProblem::new(
            origin_of_first_set(values, error.settings),
            error.to_string(),
        )
    })
}

fn node_id(values: &SettingValues, environment: &Environment) -> Result<NodeId, ConfigProblem> {
    let named = values.optional("server.node").map(str::to_owned);
    let named = named.unwrap_or_else(|| generate_node_id(environment));
    NodeId::new(named)
        .map_err(|error| ConfigProblem::new(values.origin("server.node"), error.to_string()))
}

fn parse_log_format(name: &str) -> LogFormat {
    match name {
        "human" => LogFormat::Human,
        "json" => LogFormat::Json,
        _ => LogFormat::Auto,
    }
}

/// Generates a node id from the host name and a random suffix, because several nodes may run on one host or from one
/// image.
fn generate_node_id(environment: &Environment) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = kernel
        .as_deref()
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let host = host
        .or_else(|| environment.get("HOSTNAME"))
        .unwrap_or("parlor");
    let random = rand::rng().random_range(0..0x0100_0000_u32);
    node_id_from_host(host, random)
}

/// Replaces the characters of a host name that a node id may not contain, and appends the suffix.
fn node_id_from_host(host: &str, random: u32) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let host: String = host
        .chars()
        .take(64)
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    format!("{host}-{random:06x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_of_one_host_have_different_names() {
        let environment = Environment::default();
        assert_ne!(
            generate_node_id(&environment),
            generate_node_id(&environment)
        );
    }

    #[test]
    fn a_generated_node_name_is_always_valid_in_keys() {
        for host in ["web-1.eu", "my host:1", "büro", &"x".repeat(300)] {
            assert!(NodeId::new(node_id_from_host(host, 7)).is_ok(), "{host}");
        }
    }
}
