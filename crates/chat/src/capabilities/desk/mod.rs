//! The support desk: agents, their queues and their assignments.

pub mod keys;
