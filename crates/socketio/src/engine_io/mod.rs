//! Engine.IO v4 server: sessions over polling and WebSocket. A [`SessionHandler`] receives their messages.
//!
//! ```text
//!  GET transport=polling                                     GET transport=websocket, no sid
//!       │ open packet in the response                              │ 101, open packet is the first frame
//!       ▼          GET transport=websocket&sid                     ▼
//!    Polling ────────────▶ Polling + probe ── 2probe, 3probe, 5 ─▶ WebSocket
//!       │ ◀─ probe failed or upgrade_timeout ──┘                   │
//!       ├───────────────────────────────────────┬──────────────────┘
//!       │ close(reason)                         │ abort(reason), or the send queue exceeds its limit
//!       ▼                                       ▼
//!    Closing, Graceful ───── abort() ───────▶ Closing, Abort: the send queue is dropped
//!       │ sends the queue, then a close packet  │
//!       │ for at most CLOSE_TIMEOUT             │       on_close(reason) once, when closing begins
//!       └───────────────────────────────────────┴─────▶ Closed: removed from the SessionTable
//! ```
//!
//! A session is aborted if its TCP connection ends without a close frame. A pending poll returns the rest of the send
//! queue. After a disconnect by the server or a shutdown, further polls are answered until the queue is empty; after
//! other reasons with 400.
//!
//! Invariants:
//! 1. An idle session owns no buffer and no timer: one task pings all sessions.
//! 2. A session is in the table from its first request until its close is reported and its last bytes are sent or
//!    dropped.

mod connection;
mod encoded_frame;
mod handler;
mod ping_timers;
mod polling;
mod requests;
mod responses;
mod server;
mod session;
mod session_table;
mod transport_state;
mod websocket_handshake;

pub(crate) use encoded_frame::EncodedFrame;
pub use handler::SessionHandler;
pub use server::EngineIoServer;
pub use session::EngineIoSession;
