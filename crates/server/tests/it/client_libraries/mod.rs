//! Tests with real Socket.IO clients in two languages, on one node and on three. The tests check the keys of the store
//! as another program would.

mod abuse;
mod deployment;
mod drain;
mod driver;
mod errors;
mod events;
mod polling;
mod recovery;
