//! Many people at once, on real nodes that are killed, and on stores that forget: afterwards everything is counted.
//!
//! Always true:
//! 1. The phases of a test follow counts and conditions: "in the middle" is when so many messages were acknowledged.
//! 2. Whoever gets no answer tries again with the same `clientId`, as apps do. So at the end every message was acknowledged.
//! 3. What is counted comes from the rows, by the simplest statement there is, not from what the product derives.

mod clients;
mod count;
mod faults;
mod membership;
mod shared;
mod sockets;
mod steady;
mod wire;
mod world;
