//! Tests of the authenticator, with generated keys and a manual clock.

mod algorithms;
mod claims;
mod config;
mod garbage;
mod issuer;
mod keyset;
mod logs;
mod remembered;
mod secret;
mod tokens;
mod waiting;
mod written;
