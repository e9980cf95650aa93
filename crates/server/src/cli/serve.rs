//! `parlor serve`: start, say where, run until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use parlor_chat::database::Database;
use parlor_embedded::SystemClock;
use parlor_store::{Store, StoreUrl};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{debug, info, warn};

use super::{Outcome, Output};
use crate::config::{Config, Loaded, Origin, render};
use crate::identity::Identity;
use crate::lifecycle::{self, Opening, Start};

/// Connections that may wait to be accepted, as far as the kernel allows (`net.core.somaxconn`): the clients of a node that
/// ended come all at once, and who finds no place waits for seconds before its kernel tries again.
const BACKLOG: u32 = 16_384;

/// What `serve` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A Redis or PostgreSQL that is away at the start is tried again for ever; until it is there,
/readyz answers 503 with the reason. SIGTERM or SIGINT: no new connections, open requests end, the store is
flushed, all within 10 seconds; a second signal ends the process at once. The exit code is 74
where the disk of the embedded store could not be synced.

Examples:
  parlor serve
  parlor serve --http 0.0.0.0:8080 --store redis://:secret@cache:6379/0
  PARLOR_STORE__URL=redis://cache parlor serve --print-config")]
pub struct Args {
    /// Where HTTP listens (server.http)
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// Where gRPC listens; empty for off (server.grpc)
    #[arg(long, value_name = "ADDRESS")]
    pub grpc: Option<String>,
    /// Print every setting with its value and where it came from, and end
    #[arg(long)]
    pub print_config: bool,
    /// With --print-config: as JSON
    #[arg(long, requires = "print_config")]
    pub json: bool,
}

/// Runs the server until a signal.
pub async fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> anyhow::Result<Outcome> {
    if args.print_config {
        if args.json {
            output.json(&render::json(&loaded.values))?;
        } else {
            output.line(&render::toml(&loaded.values))?;
        }
        return Ok(Outcome::Done);
    }
    let config = &loaded.config;
    // Signals are caught before anything is opened, so that an early one is not lost.
    let mut signals = Signals::new().context("signals cannot be caught")?;
    let http = bind("server.http", "--http", &config.server.http).await?;
    let grpc = match &config.server.grpc {
        Some(address) => Some(bind("server.grpc", "--grpc", address).await?),
        None => None,
    };
    let doors = Doors {
        http: http.local_addr()?,
        grpc: grpc.as_ref().map(TcpListener::local_addr).transpose()?,
    };
    let prepared = tokio::select! {
        prepared = prepare(config) => prepared?,
        () = signals.next() => {
            info!("told to end before store and database were open");
            return Ok(Outcome::Done);
        }
    };
    info!(http = %doors.http, grpc = doors.grpc.map(tracing::field::display), node = %config.server.node, store = %config.store.options.url, database = %config.database.url, "listening");
    // A server runs on when nobody reads what it prints.
    if let Err(error) = output.line(&welcome(loaded, &doors, &prepared)) {
        debug!(%error, "the welcome was not printed");
    }
    let shutdown = async move {
        signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            warn!("a second signal: ending at once");
            std::process::exit(1);
        });
    };
    let start = Start {
        http,
        grpc,
        config: config.clone(),
        identity: prepared.identity,
        opening: prepared.store,
        database: prepared.database,
    };
    lifecycle::run(start, shutdown).await?;
    Ok(Outcome::Done)
}

/// What is made ready before anybody is let in.
struct Prepared {
    identity: Identity,
    store: Opening<Store>,
    database: Opening<Database>,
}

/// Reads the keys and opens store and database. On a task of its own, since a large store is read without a pause.
async fn prepare(config: &Config) -> anyhow::Result<Prepared> {
    let config = config.clone();
    let prepared = tokio::spawn(async move {
        let clock = Arc::new(SystemClock);
        let identity = Identity::load(&config.auth, &config.server.data, clock).await?;
        // The store first: its lock keeps a second server out of the folder.
        let store = lifecycle::open(config.store.options).await?;
        let database = lifecycle::open_database(config.database).await?;
        anyhow::Ok(Prepared {
            identity,
            store,
            database,
        })
    });
    prepared
        .await
        .context("store and database cannot be opened")?
}

/// Where clients come in.
struct Doors {
    http: SocketAddr,
    grpc: Option<SocketAddr>,
}

async fn bind(setting: &str, flag: &str, address: &str) -> anyhow::Result<TcpListener> {
    listen(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow!("{address} is in use by another process; end it or choose another address with {flag}")
        }
        io::ErrorKind::PermissionDenied => {
            anyhow!("{address} may not be opened by this user; choose a port above 1023 with {flag}")
        }
        _ => anyhow!("cannot listen on {address} ({setting}): {error}"),
    })
}

/// Listens on the first address of this name that can be had.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
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
    // What a server that ended left behind keeps nobody from starting it again.
    socket.set_reuseaddr(true)?;
    // Whoever is accepted has it from the listener: small answers do not wait until the client has acknowledged earlier ones.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Where it listens and what to try next.
fn welcome(loaded: &Loaded, doors: &Doors, prepared: &Prepared) -> String {
    let config = &loaded.config;
    let url = &config.store.options.url;
    let store = match (&prepared.store, url) {
        (Opening::Waiting(reason), _) => format!("away, trying again: {reason}"),
        (Opening::Open(_), StoreUrl::Embedded) => {
            format!("embedded, in {}", config.server.data.display())
        }
        (Opening::Open(_), _) => url.to_string(),
    };
    let database = match &prepared.database {
        Opening::Waiting(reason) => format!("away, trying again: {reason}"),
        Opening::Open(_) => config.database.url.to_string(),
    };
    let preset = config.keys.preset;
    // As it was called, so that the lines can be copied where `parlor` is not on the path, and look at the same store.
    let called = std::env::args_os().next();
    let parlor = called
        .as_ref()
        .map_or("parlor".into(), |name| name.to_string_lossy());
    let same = same_store(loaded);
    let address = doors.http;
    let grpc = doors.grpc.map_or("off".to_owned(), |grpc| grpc.to_string());
    format!(
        "Parlor {version}\n  http      http://{address}\n  docs      http://{address}/docs/\n  socket.io http://{address} (path /socket.io/)\n  grpc      {grpc}\n  store     {store}\n  database  {database}\n  keys      preset {preset}\n\n\
         Try:\n  curl http://{address}/readyz\n  {parlor} token --user alice --name Alice{same}\n  {parlor} schema\n  {parlor} doctor{same}\n",
        version = env!("CARGO_PKG_VERSION")
    )
}

/// The flags that chose the store, for another command to repeat; a password in them is not repeated.
fn same_store(loaded: &Loaded) -> String {
    let url = loaded.config.store.options.url.to_string();
    let database = loaded.config.database.url.to_string();
    let data = loaded.config.server.data.display().to_string();
    let flags = [
        ("--store", "store.url", url),
        ("--database", "database.url", database),
        ("--data", "server.data", data),
    ];
    flags
        .into_iter()
        .filter(|(_, name, _)| matches!(loaded.values.origin(name), Origin::Flag(_)))
        .map(|(flag, _, value)| format!(" {flag} {value}"))
        .collect()
}

/// The two signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::listen;

    #[tokio::test]
    async fn whoever_is_accepted_is_sent_small_answers_at_once() {
        let listener = listen("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(accepted.nodelay().unwrap());
    }
}
