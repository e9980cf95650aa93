//! Identity with keys made here and a clock moved by hand.

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
