//! Socket.IO v5 server over Engine.IO v4 for many mostly idle connections. The crate knows nothing about chat.
//! Layers, lowest first:
//! - [`websocket`]: parses and encodes WebSocket frames (RFC 6455); no input or output of its own.
//! - [`packet`]: decodes and encodes the packets of Engine.IO and Socket.IO; decoded parts borrow from the input.
//! - [`engine_io`]: Engine.IO sessions over polling and WebSocket, the upgrade between them, and pings.
//! - [`socket_io`]: Socket.IO namespaces, events, acknowledgements, and recovery of sockets after a lost connection.

mod account;
pub mod engine;
pub mod frame;
mod options;
pub mod packet;
mod slab;
pub mod socket;

pub use options::{
    Client, DisconnectReason, DowncastUpgraded, RecoveryOptions, SocketIoOptions, SocketIoStats,
    UpgradedTcpStream,
};
pub use socket::{
    ConnectError, ConnectRequest, EncodedEvent, HandlerFuture, IncomingEvent, Socket,
    SocketHandler, SocketIoServer,
};
