//! Socket.IO v5 server over Engine.IO v4 for many mostly idle connections. The crate knows nothing about chat.
//! Layers, lowest first:
//! - [`websocket`]: parses and encodes WebSocket frames (RFC 6455); no input or output of its own.
//! - [`packet`]: decodes and encodes the packets of Engine.IO and Socket.IO; decoded parts borrow from the input.
//! - [`engine_io`]: Engine.IO sessions over polling and WebSocket, the upgrade between them, and pings.
//! - [`socket_io`]: Socket.IO namespaces, events, acknowledgements, and recovery of sockets after a lost connection.

mod client_info;
mod disconnect_reason;
pub mod engine_io;
mod memory_budget;
mod options;
pub mod packet;
pub mod socket_io;
mod stats;
mod upgraded_stream;
pub mod websocket;

pub use client_info::ClientInfo;
pub use disconnect_reason::DisconnectReason;
pub use options::{RecoveryOptions, SocketIoOptions};
pub use socket_io::{
    ConnectError, ConnectRequest, EncodedEvent, HandlerFuture, IncomingEvent, Socket,
    SocketHandler, SocketIoServer,
};
pub use stats::SocketIoStats;
pub use upgraded_stream::{DowncastUpgraded, UpgradedTcpStream};
