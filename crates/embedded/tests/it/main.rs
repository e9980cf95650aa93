//! Integration tests of the engine: comparison with a real Redis server, restarts and disk faults.

#![expect(
    clippy::panic,
    reason = "a failed check of a test helper is a failed test"
)]

mod dump;
mod oracle;
mod persistence;
