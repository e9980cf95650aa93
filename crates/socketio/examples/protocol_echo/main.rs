//! A server for the public protocol suites of Engine.IO v4 and Socket.IO v5: `cargo run -p parlor-socketio --example protocol_echo`.

mod echo;

use clap::Parser;
use echo::{EchoServers, Settings};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Echoes on /engine.io/ and on /socket.io/.
#[derive(Debug, Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Milliseconds between two pings.
    #[arg(long, default_value_t = 300)]
    ping_interval: u64,
    /// Milliseconds that a client has to answer one.
    #[arg(long, default_value_t = 200)]
    ping_timeout: u64,
    /// Bytes of a message or of a polling body.
    #[arg(long, default_value_t = 1_000_000)]
    max_payload: usize,
    /// Milliseconds that a client has to connect to a namespace.
    #[arg(long, default_value_t = 1000)]
    connect_timeout: u64,
}

// One thread, so that requests of several connections are answered in the order in which they came: the suites count on it.
#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let flags = Flags::parse();
    let listener = TcpListener::bind(flags.listen).await?;
    println!("listening on {}", listener.local_addr()?);
    let echo = EchoServers::new(Settings {
        ping_interval: Duration::from_millis(flags.ping_interval),
        ping_timeout: Duration::from_millis(flags.ping_timeout),
        max_payload: flags.max_payload,
        connect_timeout: Duration::from_millis(flags.connect_timeout),
        auth_delay: Duration::from_millis(50),
    });
    echo.serve(listener).await
}
