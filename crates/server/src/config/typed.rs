//! The checked configuration: typed sections for what is in use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use parlor_chat::database::{self, DatabaseUrl, Synchronous};
use parlor_chat::ids::NodeId;
use parlor_chat::keys::Settings;
use parlor_chat::limits::{Algorithm, LONGEST_WINDOW, Limit};
use parlor_chat::options::{self, MessageOptions, SessionOptions};
use parlor_store::{Options, StoreUrl};
use rand::RngExt;

use super::duration;
use super::environment::Environment;
use super::layouts;
use super::sources::{Origin, Problem};
use super::values::Values;
use crate::address::Proxies;
use crate::identity::{AuthConfig, Written};

/// A configuration in which everything was accepted.
#[derive(Clone, Debug)]
pub struct Config {
    /// The process.
    pub server: Server,
    /// The store.
    pub store: Store,
    /// What the database is opened with.
    pub database: database::Options,
    /// Layouts, prefix and times of keys.
    pub keys: Settings,
    /// The capabilities.
    pub chat: options::Options,
    /// How often a user, or an address without a valid token, may call the gateways.
    pub calls: Limit,
    /// Socket.IO.
    pub gateway: Gateway,
    /// Which tokens are accepted.
    pub auth: AuthConfig,
    /// Logs.
    pub log: Log,
}

/// The process itself.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where HTTP listens.
    pub http: String,
    /// The folder of everything kept on disk.
    pub data: PathBuf,
    /// Where gRPC listens, if it does.
    pub grpc: Option<String>,
    /// The id of this node.
    pub node: NodeId,
    /// Browser origins that may call, beyond the server's own.
    pub allowed_origins: Vec<String>,
    /// The proxies that may say whom they speak for.
    pub trusted_proxies: Proxies,
}

/// The store.
#[derive(Clone, Debug)]
pub struct Store {
    /// What it is opened with.
    pub options: Options,
}

/// Socket.IO, and what its clients may cost.
#[derive(Clone, Copy, Debug)]
pub struct Gateway {
    /// The pause between two pings to a client.
    pub ping_interval: Duration,
    /// How long a client may take to answer one.
    pub ping_timeout: Duration,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Most bytes of a client's packet.
    pub max_frame: usize,
    /// Most bytes that wait for a client.
    pub buffer: usize,
    /// Events of a socket.
    pub events: Rate,
    /// Conversations of a socket.
    pub conversations: usize,
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address.
    pub connections_per_address: usize,
    /// Handshakes of one address.
    pub handshakes: Rate,
    /// How long a lost socket is held; zero for not at all.
    pub recovery: Duration,
    /// Most events kept for it.
    pub recovery_frames: usize,
}

/// How often something may happen.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Per second, on average.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

/// Logs.
#[derive(Clone, Debug)]
pub struct Log {
    /// The filter.
    pub level: String,
    /// The form.
    pub format: LogFormat,
}

/// The form of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Makes the typed sections, or says what does not go together.
pub(super) fn check(values: &Values, environment: &Environment) -> Result<Config, Vec<Problem>> {
    let mut problems = Vec::new();
    let keys = layouts::typed(values);
    if let Err(error) = keys.check() {
        problems.push(Problem::new(
            place(values, error.settings()),
            error.to_string(),
        ));
    }
    let url = store_url(values);
    if values.optional("store.client_cert").is_some()
        != values.optional("store.client_key").is_some()
    {
        let message = "store.client_cert and store.client_key belong together; set both or neither";
        let place = place(values, &["store.client_cert", "store.client_key"]);
        problems.push(Problem::new(place, message));
    }
    for name in ["store.ca_cert", "store.client_cert", "store.client_key"] {
        if let Some(file) = values.optional(name)
            && let Err(error) = std::fs::File::open(file)
        {
            problems.push(Problem::new(
                values.origin(name),
                format!("{name}: {file} cannot be read: {error}"),
            ));
        }
    }
    let url = url.map_err(|problem| problems.push(problem));
    let auth = auth(values).map_err(|problem| problems.push(problem));
    let node = node_id(values, environment).map_err(|problem| problems.push(problem));
    let data = PathBuf::from(values.text("server.data"));
    let database = database_options(values, &data).map_err(|problem| problems.push(problem));
    let calls = calls(values).map_err(|problem| problems.push(problem));
    let (Ok(url), Ok(database), Ok(auth), Ok(node), Ok(calls), true) =
        (url, database, auth, node, calls, problems.is_empty())
    else {
        return Err(problems);
    };
    Ok(Config {
        server: Server {
            http: values.text("server.http").to_owned(),
            grpc: values.optional("server.grpc").map(str::to_owned),
            allowed_origins: values.list("server.allowed_origins"),
            trusted_proxies: trusted_proxies(values),
            data: data.clone(),
            node,
        },
        store: Store {
            options: options(values, url, data),
        },
        database,
        keys,
        chat: chat(values),
        calls,
        gateway: gateway(values),
        auth,
        log: Log {
            level: values.text("log.level").to_owned(),
            format: format(values.text("log.format")),
        },
    })
}

fn chat(values: &Values) -> options::Options {
    options::Options {
        grace: values.time("presence.grace"),
        messages: MessageOptions {
            max_content: small(values.number("messages.max_content")) as usize,
            max_metadata: small(values.number("messages.max_metadata")) as usize,
            edit_window: values.time("messages.edit_window"),
            rate: small(values.number("limits.messages")),
            without_store: values.text("limits.messages_without_store") == "open",
        },
        fanout_limit: values.number("unread.fanout_limit"),
        sessions: SessionOptions {
            single_device: values.flag("sessions.single_device"),
            anonymous: values.flag("sessions.anonymous"),
            // Known when the keys are read.
            issuer: None,
        },
    }
}

fn gateway(values: &Values) -> Gateway {
    let number = |name| usize::try_from(values.number(name)).unwrap_or(usize::MAX);
    let rate = |average, burst| Rate {
        per_second: small(values.number(average)),
        burst: small(values.number(burst)),
    };
    Gateway {
        ping_interval: values.time("gateway.ping_interval"),
        ping_timeout: values.time("gateway.ping_timeout"),
        handshake_timeout: values.time("gateway.handshake_timeout"),
        max_frame: number("gateway.max_frame"),
        buffer: number("gateway.buffer"),
        events: rate("gateway.events", "gateway.event_burst"),
        conversations: number("gateway.conversations"),
        connections: number("gateway.connections"),
        connections_per_address: number("gateway.connections_per_address"),
        handshakes: rate("gateway.handshakes", "gateway.handshake_burst"),
        recovery: values.time("gateway.recovery"),
        recovery_frames: number("gateway.recovery_frames"),
    }
}

fn calls(values: &Values) -> Result<Limit, Problem> {
    let (name, window) = ("limits.http_window", values.time("limits.http_window"));
    let requests = small(values.number("limits.http"));
    Limit::new(Algorithm::Gcra, requests, window).map_err(|_| {
        let longest = duration::format(LONGEST_WINDOW);
        let message = format!("{name}: the longest is {longest}");
        Problem::new(values.origin(name), message)
    })
}

/// A number whose bounds are far below.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn trusted_proxies(values: &Values) -> Proxies {
    let networks = values.list("server.trusted_proxies");
    // Its kind has read each of them.
    let networks: Vec<_> = networks.iter().filter_map(|it| it.parse().ok()).collect();
    Proxies::new(&networks)
}

/// Where the first of these settings that was set was written.
fn place<'a>(values: &'a Values, names: &[&str]) -> &'a Origin {
    let mut origins = names.iter().map(|name| values.origin(name));
    let written = origins.find(|origin| **origin != Origin::Default);
    written.unwrap_or(&Origin::Default)
}

fn options(values: &Values, url: StoreUrl, data: PathBuf) -> Options {
    let path = |name| values.optional(name).map(PathBuf::from);
    Options {
        data: (url == StoreUrl::Embedded).then_some(data),
        url,
        timeout: values.time("store.timeout"),
        connections: usize::try_from(values.number("store.connections")).unwrap_or(1),
        prefix: values.text("keys.prefix").to_owned(),
        ca_cert: path("store.ca_cert"),
        client_cert: path("store.client_cert"),
        client_key: path("store.client_key"),
        ..Options::default()
    }
}

/// `store.url` with `store.password` put in where it carries none.
fn store_url(values: &Values) -> Result<StoreUrl, Problem> {
    let wrong = |error| Problem::new(values.origin("store.url"), format!("store.url: {error}"));
    let mut url: StoreUrl = values.text("store.url").parse().map_err(wrong)?;
    match &mut url {
        StoreUrl::Embedded => {}
        StoreUrl::Redis { login, .. }
        | StoreUrl::Sentinel { login, .. }
        | StoreUrl::Cluster { login, .. } => {
            let own = login.password.take();
            login.password = own.or_else(|| values.optional("store.password").map(str::to_owned));
        }
    }
    Ok(url)
}

fn database_options(values: &Values, data: &Path) -> Result<database::Options, Problem> {
    let name = "database.url";
    let wrong = |error| Problem::new(values.origin(name), format!("{name}: {error}"));
    let url = DatabaseUrl::parse(values.text(name), data).map_err(wrong)?;
    Ok(database::Options {
        connections: u32::try_from(values.number("database.connections")).unwrap_or(1),
        timeout: values.time("database.timeout"),
        synchronous: match values.text("database.synchronous") {
            "normal" => Synchronous::Normal,
            _ => Synchronous::Full,
        },
        ..database::Options::new(url)
    })
}

fn auth(values: &Values) -> Result<AuthConfig, Problem> {
    let written = Written {
        secret: values.text("auth.secret"),
        algorithm: values.text("auth.algorithm"),
        public_key: values.text("auth.public_key"),
        jwks: values.text("auth.jwks"),
        audience: values.text("auth.audience"),
        issuer: values.text("auth.issuer"),
    };
    AuthConfig::new(&written)
        .map_err(|error| Problem::new(place(values, error.settings), error.to_string()))
}

fn node_id(values: &Values, environment: &Environment) -> Result<NodeId, Problem> {
    let named = values.optional("server.node").map(str::to_owned);
    let named = named.unwrap_or_else(|| node(environment));
    NodeId::new(named)
        .map_err(|error| Problem::new(values.origin("server.node"), error.to_string()))
}

fn format(name: &str) -> LogFormat {
    match name {
        "human" => LogFormat::Human,
        "json" => LogFormat::Json,
        _ => LogFormat::Auto,
    }
}

/// The host's name and a random end, so that two nodes of one host, or of one image, differ.
fn node(environment: &Environment) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = kernel
        .as_deref()
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let host = host
        .or_else(|| environment.get("HOSTNAME"))
        .unwrap_or("parlor");
    let random = rand::rng().random_range(0..0x0100_0000_u32);
    named(host, random)
}

/// A host may be called what a node may not.
fn named(host: &str, random: u32) -> String {
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
        assert_ne!(node(&environment), node(&environment));
    }

    #[test]
    fn a_made_name_can_always_stand_in_a_key() {
        for host in ["web-1.eu", "my host:1", "büro", &"x".repeat(300)] {
            assert!(NodeId::new(named(host, 7)).is_ok(), "{host}");
        }
    }
}
