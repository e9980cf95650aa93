//! Tests of the foundation: database, identifiers, keys, nodes.

mod database;
mod ids;
mod keys;
mod outbox;
