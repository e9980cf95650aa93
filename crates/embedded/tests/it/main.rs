//! The engine from outside: against a real Redis, across restarts, under faults.

#![expect(
    clippy::panic,
    reason = "a failed check of a test helper is a failed test"
)]

mod oracle;
mod persist;
