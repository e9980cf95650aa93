//! The code generated from `proto/`, and its descriptors.

#![expect(
    clippy::allow_attributes,
    reason = "the generated code uses `allow` instead of `expect`"
)]

/// The first version of the API.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/parlor.v1.rs"));
}

/// All of `proto/`, as reflection tells it.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
