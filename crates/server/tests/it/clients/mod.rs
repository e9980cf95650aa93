//! Real clients of two languages drive every event, on one node and on three, and other programs look at the store
//! meanwhile.

mod abuse;
mod drain;
mod driver;
mod errors;
mod events;
mod polling;
mod recovery;
mod world;
