//! Operations of the capability, and the interfaces that do not offer them.

use super::CheckLimit;
use crate::api::operation::{Interface, NotOffered, Operation, OperationGroup};

/// All operations of the capability.
#[rustfmt::skip]
pub const OPERATIONS: OperationGroup = OperationGroup {
    operations: &[
        CheckLimit::INFO,
    ],
    not_offered: &[
        NotOffered::all_by(Interface::SocketIo, "for services, over HTTP and gRPC"),
    ],
};
