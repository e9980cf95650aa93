//! Socket.IO v5: namespaces and their sockets, events, acknowledgements, recovery.
//!
//! Always true:
//! 1. Packets of one connection are handled one after the other, in the order in which they came.
//! 2. A socket is in exactly one [`one::Status`]; it becomes `Over` once, and whoever makes it so tells the application.
//! 3. Locks are taken in this order: a session's links, a socket's link, a session's way out or the shelf.

mod app;
mod claim;
mod connecting;
mod event;
mod frame;
mod hub;
mod links;
mod one;
mod packets;
mod ring;
mod roster;
mod server;
mod shelf;

pub use app::{ConnectError, ConnectRequest, HandlerFuture, SocketHandler};
pub use event::IncomingEvent;
pub use frame::EncodedEvent;
pub use one::Socket;
pub use server::SocketIoServer;
