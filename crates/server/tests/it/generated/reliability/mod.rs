//! Generates docs/reliability.md: injects each fault into a running node, and records what clients get.
//!
//! Invariants:
//! 1. After the repair of a fault, every operation works again without a restart of the node.
//! 2. No operation fails with `internal`, and an outage fills no log, whatever the number of failed requests.

mod faults;
mod operations;
mod page;

pub(super) use self::page::text;

/// Results of the operations during one fault, one cell each.
struct FaultColumn {
    title: &'static str,
    cells: Vec<String>,
}
