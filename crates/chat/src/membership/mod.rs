//! Membership: who belongs to a conversation, answered from caches over the rows.
//!
//! Always true: the rows decide. A change is committed first, then the caches forget ([`changed`]); what was read before a
//! change is not kept after it, and what another epoch of the store has kept is not believed.

pub mod keys;

mod among;
mod cache;
mod changed;
mod flights;
mod members;
mod participants;
mod rows;

pub use self::members::Members;
pub use self::participants::MAX_LISTED_PARTICIPANTS;

pub(crate) use self::among::{all, filter_non_members};
pub(crate) use self::cache::MembershipCache;
pub(crate) use self::changed::invalidate_and_publish;
pub(crate) use self::participants::ParticipantCache;
