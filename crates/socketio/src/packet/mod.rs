//! Packets of Engine.IO and, inside their messages, of Socket.IO: pure functions that decode text into slices and
//! encode it.

pub mod encode;
pub mod engine_io;
mod event_payload;
pub mod partial_binary;
pub mod placeholder;
pub mod socket_io;

pub use event_payload::EventPayload;
