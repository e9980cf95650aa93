//! The foundation of the capabilities: context and clock, identifiers, keys, the database, the bus, the nodes, and the
//! small mechanisms that several capabilities share.
//!
//! | question | module |
//! |---|---|
//! | how a capability reaches store, keys and time | [`context`], [`clock`] |
//! | what a valid identifier is | [`ids`] |
//! | which keys exist, and how their names are built | [`keys`] |
//! | how rows are read and written | [`database`] |
//! | how nodes notify each other | [`bus`] |
//! | which nodes are alive | [`nodes`] |
//! | whether store and database belong together | `store_binding` |
//! | how a committed change reaches the store, whatever happens to the process | [`outbox`] |
//! | how work is repeated periodically | `background` |
//! | how a test stops a node at a certain point | [`failpoint`] |
//! | how concurrent calls share work: one load, one statement, one notification | `single_flight`, `request_batcher`, `throttle` |
//!
//! Invariant: the foundation knows no capability, except that [`keys`] lists the declarations of all of them.

pub(crate) mod background;
pub mod bus;
pub mod clock;
pub mod context;
pub mod database;
pub mod failpoint;
pub mod ids;
pub mod keys;
pub mod nodes;
pub mod outbox;
pub(crate) mod request_batcher;
#[cfg(test)]
pub(crate) mod script_parity;
pub(crate) mod single_flight;
pub(crate) mod store_binding;
pub(crate) mod throttle;
