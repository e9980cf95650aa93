//! What the capabilities stand on: context and clock, identifiers, keys, the database, the bus, the nodes, and the small
//! mechanisms that several capabilities share.

pub(crate) mod background;
pub mod bus;
pub mod clock;
pub mod context;
pub mod database;
pub mod ids;
pub mod keys;
pub mod nodes;
pub(crate) mod request_batcher;
pub(crate) mod retry_queue;
#[cfg(test)]
pub(crate) mod script_parity;
pub(crate) mod single_flight;
pub(crate) mod store_binding;
pub(crate) mod throttle;
