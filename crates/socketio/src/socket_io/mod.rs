//! Socket.IO v5 server: namespaces and their sockets, events, acknowledgements, connection state recovery.
//!
//! ```text
//!             session already closed
//!  Created ────────────────────────────────────────────────────────────────▶ Disconnected: removed from the registry,
//!    │ CONNECT reply queued                                                     ▲ on_disconnected exactly once
//!    ▼          on_connected returned            DISCONNECT packet              │
//!  Connecting ────────────────────────▶ Connected ──────────────────────────────┤
//!    │ session closed                     │   ▲ on_recover Ok(true): CONNECT    │
//!    │          ┌─────────────────────────┘   │ reply and missed events queued  │
//!    │          │ session closed, or          │                                 │
//!    ▼          ▼ CONNECT with its pid        │                                 │
//!  InTransition ──────────────────────────────┘                                 │
//!    │    ▲ └── reason not recoverable, events missing, or on_recover Ok(false) ┤
//!    │    │ CONNECT with its pid                                                │
//!    ▼    │                                                                     │
//!  Detached ──────── recovery window over, disconnect() or shutdown ────────────┘
//! ```
//!
//! A socket is stored as `Detached` after [`SocketHandler::on_detached`], and again, with its old deadline, after a
//! recovery that was rejected or dropped. Events sent to a socket are dropped in `Created` and `Disconnected`, queued
//! and buffered in `Connecting` and `Connected`, and only buffered in `Detached` and `InTransition`.
//!
//! Invariants:
//! 1. Packets of one session are handled one after the other, in the order in which they arrived.
//! 2. A socket has exactly one [`socket::SocketStatus`]. It becomes `Disconnected` once, and the code that sets it
//!    notifies the handler.
//! 3. Lock order: `SocketIoSessionState` of a session, `SocketState` of a socket, then `TransportState` of a session or
//!    `DetachedSockets`.

mod connect;
mod detached_sockets;
mod dispatch;
mod encoded_event;
mod handler;
mod layer;
mod lifecycle;
mod recover;
mod registry;
mod replay_buffer;
mod server;
mod session_state;
mod socket;

pub use encoded_event::EncodedEvent;
pub use handler::{ConnectError, ConnectRequest, HandlerFuture, IncomingEvent, SocketHandler};
pub use server::SocketIoServer;
pub use socket::Socket;
