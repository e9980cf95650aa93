//! Server for the public protocol suites of Engine.IO v4 and Socket.IO v5: `cargo run -p parlor-socketio --example
//! protocol_echo`.

mod echo;

use clap::Parser;
use echo::{EchoServers, Settings};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Echo server for protocol tests: Engine.IO on /engine.io/, Socket.IO on /socket.io/.
#[derive(Debug, Parser)]
struct Flags {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Time between two pings, in milliseconds.
    #[arg(long, default_value_t = 300)]
    ping_interval: u64,
    /// Time that a client has to answer a ping, in milliseconds.
    #[arg(long, default_value_t = 200)]
    ping_timeout: u64,
    /// Maximum size of a message or of a polling body, in bytes.
    #[arg(long, default_value_t = 1_000_000)]
    max_payload: usize,
    /// Time that a client has to connect to a namespace, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    connect_timeout: u64,
}

// One thread, because the suites rely on requests of several connections being answered in the order of their arrival.
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
