//! Packets of Engine.IO and, inside their messages, of Socket.IO: pure functions that decode text into slices and
//! encode it.

pub mod attachments;
pub mod engine;
mod event;
pub mod placeholder;
pub mod socket;
pub mod write;

pub use event::EventPayload;
