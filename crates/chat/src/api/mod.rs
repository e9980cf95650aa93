//! How the capabilities are called. An operation is a request type, a reply type and one function; every gateway runs the
//! same operations. The caller and its rights, the errors and their stable codes are defined here, too.

pub mod caller;
pub mod error;
pub mod error_code;
pub mod operation;
pub(crate) mod pagination;
