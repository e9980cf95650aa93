//! Socket.IO v5 over Engine.IO v4, written for many idle connections. It knows nothing of chat.
//!
//! Layers, each on the one before it:
//! - [`frame`]: WebSocket frames (RFC 6455), bytes in and messages out, no input or output of its own.
//! - [`packet`]: the packets of Engine.IO and of Socket.IO, text in and borrowed parts out.
//! - [`engine`]: Engine.IO: sessions over polling and WebSocket, the change from one to the other, pings.
//! - [`socket`]: Socket.IO: namespaces, events, acknowledgements, and recovery of a lost connection.

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
