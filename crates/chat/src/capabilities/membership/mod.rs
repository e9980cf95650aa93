//! Membership: the members of conversations, from caches of the database rows.
//!
//! Invariants:
//! 1. The database decides. A change is committed first, then the caches are invalidated (`invalidate.rs`).
//! 2. Rows that were read before a change are not cached after it.
//! 3. Cached answers of another store epoch are ignored.

pub mod keys;

mod among;
mod invalidate;
mod members;
mod membership_cache;
mod participants;
mod rows;

pub use self::members::Members;
pub use self::participants::MAX_LISTED_PARTICIPANTS;

pub(crate) use self::among::{all, filter_non_members};
pub(crate) use self::invalidate::invalidate_and_publish;
pub(crate) use self::membership_cache::MembershipCache;
pub(crate) use self::participants::ParticipantCache;
