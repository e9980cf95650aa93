//! The bus: frames that nodes publish to each other. [`keys`] names the channels, [`frame`] the kinds of frames, and
//! `control` receives the frames for all nodes.
//!
//! Invariant: a frame can be lost. A receiver reads the state again after [`MaybeMissed`](parlor_store::BusEvent).

pub(crate) mod control;
pub mod frame;
pub mod keys;
