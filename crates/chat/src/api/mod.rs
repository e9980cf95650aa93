//! The interface of the capabilities. An operation is a request type, a reply type and one function; every gateway runs
//! the same operations.
//!
//! | question | file |
//! |---|---|
//! | which operations exist, and what a gateway knows of each | [`operation`] |
//! | who calls, and what a caller may do | [`caller`]; for conversations `capabilities/conversations/permissions.rs` |
//! | why an operation failed, and which code clients see | [`error`], [`error_code`] |
//! | how long a page is, and how it continues | `pagination` |
//!
//! Invariant: a rule that every gateway must keep is in an operation, never in a gateway.

pub mod caller;
pub mod error;
pub mod error_code;
pub mod operation;
pub(crate) mod pagination;
