//! Tests of the authenticator, with generated keys and a manual clock.

mod algorithms;
mod captured_logs;
mod claims;
mod config;
mod fake_issuer;
mod fixtures;
mod handcrafted_tokens;
mod jwks;
mod jwks_concurrency;
mod malformed_tokens;
mod secret;
mod signature_cache;
