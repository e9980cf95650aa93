//! Presence: who is here now, counted per person and not per open tab.

pub mod keys;
