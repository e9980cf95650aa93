//! `parlor serve`: opens store and database, prints the addresses, and runs until a signal.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use parlor_chat::database::Database;
use parlor_embedded::SystemClock;
use parlor_store::{Store, StoreUrl};
use tokio::net::{TcpListener, TcpSocket};
use tracing::{debug, info, warn};

use super::signals::{SignalHandler, Signals};
use super::{CommandStatus, Output};
use crate::auth::Authenticator;
use crate::config::{Config, LoadedConfig, SettingOrigin, render};
use crate::lifecycle::{self, ServerInit, StartupResult};
use crate::logging::LogLevelHandle;

/// Backlog of connections that wait to be accepted, limited by `net.core.somaxconn`. When a node stops, its clients
/// reconnect to the other nodes at the same time, and a client whose connection does not fit into the backlog retries
/// only after seconds.
const LISTEN_BACKLOG: u32 = 16_384;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
If Redis or PostgreSQL is unavailable at the start, the server retries until it is reachable;
meanwhile /readyz returns 503 with the reason. On SIGTERM or SIGINT the server accepts no new
connections, finishes open requests and flushes the store, within 10 seconds. A second signal stops
the process at once. On SIGHUP it reads the configuration file again and applies log.level; with a
controlling terminal, SIGHUP stops it like SIGTERM. Exit code 74: the disk of the embedded store
could not be synced.

Examples:
  parlor serve
  parlor serve --http 0.0.0.0:8080 --store redis://:secret@cache:6379/0
  PARLOR_STORE__URL=redis://cache parlor serve --print-config")]
pub struct Args {
    /// Address on which HTTP and Socket.IO listen (server.http)
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// Address on which gRPC listens; empty disables gRPC (server.grpc)
    #[arg(long, value_name = "ADDRESS")]
    pub grpc: Option<String>,
    /// Print every setting with its value and its origin, and exit
    #[arg(long)]
    pub print_config: bool,
    /// With --print-config: print JSON
    #[arg(long, requires = "print_config")]
    pub json: bool,
}

/// Runs the server until a signal arrives.
pub async fn run(
    args: &Args,
    loaded: &LoadedConfig,
    log_level: LogLevelHandle,
    output: &mut Output,
) -> anyhow::Result<CommandStatus> {
    if args.print_config {
        if args.json {
            output.write_json(&render::json(&loaded.values))?;
        } else {
            output.write_line(&render::effective_toml(&loaded.values))?;
        }
        return Ok(CommandStatus::Succeeded);
    }
    let config = &loaded.config;
    // The handlers are installed before anything is opened, so that an early signal is not lost.
    let signals = Signals::install().context("cannot install signal handlers")?;
    let mut signals = SignalHandler::new(signals, loaded.clone(), log_level);
    let http = bind("server.http", "--http", &config.server.http).await?;
    let grpc = match &config.server.grpc {
        Some(address) => Some(bind("server.grpc", "--grpc", address).await?),
        None => None,
    };
    let addresses = BoundAddresses {
        http: http.local_addr()?,
        grpc: grpc.as_ref().map(TcpListener::local_addr).transpose()?,
    };
    let opened = tokio::select! {
        opened = open_parts(config) => opened?,
        () = signals.wait_for_shutdown() => {
            info!("received a shutdown signal before store and database were open");
            return Ok(CommandStatus::Succeeded);
        }
    };
    info!(http = %addresses.http, grpc = addresses.grpc.map(tracing::field::display), node = %config.server.node, store = %config.store.url, database = %config.database.url, "listening");
    // A closed stdout must not stop the server.
    if let Err(error) = output.write_line(&startup_message(loaded, &addresses, &opened)) {
        debug!(%error, "cannot print the startup message");
    }
    let shutdown = async move {
        signals.wait_for_shutdown().await;
        tokio::spawn(async move {
            signals.wait_for_shutdown().await;
            warn!("received a second signal; stopping at once");
            std::process::exit(1);
        });
    };
    let init = ServerInit {
        http_listener: http,
        grpc_listener: grpc,
        config: config.clone(),
        authenticator: opened.authenticator,
        store: opened.store,
        database: opened.database,
    };
    lifecycle::run_server(init, shutdown).await?;
    Ok(CommandStatus::Succeeded)
}

/// Everything that is opened before connections are accepted.
struct OpenedParts {
    authenticator: Authenticator,
    store: StartupResult<Store>,
    database: StartupResult<Database>,
}

/// Loads the keys and opens store and database. Runs in its own task, because loading a large embedded store blocks the
/// thread.
async fn open_parts(config: &Config) -> anyhow::Result<OpenedParts> {
    let config = config.clone();
    let opened = tokio::spawn(async move {
        let clock = Arc::new(SystemClock);
        let authenticator =
            Authenticator::load(&config.auth, &config.server.data_folder, clock).await?;
        // The store is opened first: its lock rejects a second server with the same data folder.
        let store = lifecycle::open_store(config.store).await?;
        let database = lifecycle::open_database(config.database).await?;
        anyhow::Ok(OpenedParts {
            authenticator,
            store,
            database,
        })
    });
    opened.await.context("cannot open store and database")?
}

/// Addresses that the server listens on.
struct BoundAddresses {
    http: SocketAddr,
    grpc: Option<SocketAddr>,
}

async fn bind(setting: &str, flag: &str, address: &str) -> anyhow::Result<TcpListener> {
    listen(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow!("{address} is in use by another process; stop that process or choose another address with {flag}")
        }
        io::ErrorKind::PermissionDenied => {
            anyhow!("this user is not allowed to listen on {address}; choose a port above 1023 with {flag}")
        }
        _ => anyhow!("cannot listen on {address} ({setting}): {error}"),
    })
}

/// Listens on the first usable address of this host name.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in tokio::net::lookup_host(address).await? {
        match listen_on(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Without it, connections of a stopped server in TIME_WAIT would prevent a restart.
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit the option: small responses are sent without waiting for the acknowledgement of earlier
    // ones.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

/// The addresses, the store and the database in use, and commands to try next.
fn startup_message(
    loaded: &LoadedConfig,
    addresses: &BoundAddresses,
    opened: &OpenedParts,
) -> String {
    let config = &loaded.config;
    let url = &config.store.url;
    let unavailable = |reason: &String| format!("unavailable, retrying: {reason}");
    let store = opened
        .store
        .as_ref()
        .map_or_else(unavailable, |_| match url {
            StoreUrl::Embedded => format!("embedded, in {}", config.server.data_folder.display()),
            _ => url.to_string(),
        });
    let database = opened
        .database
        .as_ref()
        .map_or_else(unavailable, |_| config.database.url.to_string());
    let preset = config.keys.preset;
    // The name the program was called by, so that the commands can be copied even if `parlor` is not in the path.
    let program = std::env::args_os().next();
    let parlor = program
        .as_ref()
        .map_or("parlor".into(), |name| name.to_string_lossy());
    let flags = store_flags(loaded);
    let address = addresses.http;
    let grpc = addresses
        .grpc
        .map_or("off".to_owned(), |grpc| grpc.to_string());
    format!(
        "Parlor {version}\n  http      http://{address}\n  docs      http://{address}/docs/\n  socket.io http://{address} (path /socket.io/)\n  grpc      {grpc}\n  store     {store}\n  database  {database}\n  keys      preset {preset}\n\n\
         Try:\n  curl http://{address}/readyz\n  {parlor} token --user alice --name Alice{flags}\n  {parlor} schema\n  {parlor} doctor{flags}\n",
        version = env!("CARGO_PKG_VERSION")
    )
}

/// The flags that select store and database, for other commands to repeat. Passwords in URLs are hidden.
fn store_flags(loaded: &LoadedConfig) -> String {
    let url = loaded.config.store.url.to_string();
    let database = loaded.config.database.url.to_string();
    let data = loaded.config.server.data_folder.display().to_string();
    let flags = [
        ("--store", "store.url", url),
        ("--database", "database.url", database),
        ("--data", "server.data", data),
    ];
    flags
        .into_iter()
        .filter(|(_, name, _)| matches!(loaded.values.origin(name), SettingOrigin::Flag(_)))
        .map(|(flag, _, value)| format!(" {flag} {value}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::listen;

    #[tokio::test]
    async fn accepted_connections_have_tcp_nodelay() {
        let listener = listen("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(accepted.nodelay().unwrap());
    }
}
