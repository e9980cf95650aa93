//! The packets that messages carry: Engine.IO's around Socket.IO's. Pure functions from text to borrowed parts and back.

pub mod attachments;
pub mod engine;
mod event;
pub mod placeholder;
pub mod socket;
pub mod write;

pub use event::EventPayload;
