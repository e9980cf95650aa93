//! Load tests: many clients on real nodes, while nodes are killed and stores lose data. Afterwards rows, keys and
//! responses are compared.
//!
//! Invariants:
//! 1. The phases of a test follow counts, not times: a fault happens when a number of messages was acknowledged.
//! 2. A client without a response retries with the same `clientId`, like a chat app. So at the end every message was
//!    acknowledged.
//! 3. Expected values are read from the rows with the simplest statement possible, not from values that Parlor derives.

mod clients;
mod deployment;
mod faults;
mod membership;
mod retrying_client;
mod shared_limits_and_sessions;
mod sockets;
mod undisturbed;
mod verify;
