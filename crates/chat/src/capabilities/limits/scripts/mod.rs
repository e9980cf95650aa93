//! Native versions of the Lua scripts of rate limits.
//!
//! Invariants:
//! 1. The Lua text is the definition. The embedded engine runs the native version of a script in its place, and a test
//!    compares both; `docs/performance/send.md` shows what the native version saves.

pub(super) mod native;
