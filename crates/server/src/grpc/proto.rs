//! Code generated from `proto/`, and its descriptors.

#![expect(
    clippy::allow_attributes,
    reason = "the generated code uses `allow` instead of `expect`"
)]

/// Version 1 of the API.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/parlor.v1.rs"));
}

/// Descriptors of all files in `proto/`, for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
