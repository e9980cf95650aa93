//! Operations of the capability, and the interfaces that do not offer them.

use super::{ListTyping, SetTyping};
use crate::api::operation::{Interface, NotOffered, Operation, OperationGroup};

/// All operations of the capability.
#[rustfmt::skip]
pub const OPERATIONS: OperationGroup = OperationGroup {
    operations: &[
        ListTyping::INFO,
        SetTyping::INFO,
    ],
    not_offered: &[
        NotOffered::all_by(Interface::Grpc, "for chat apps, over Socket.IO and HTTP"),
        NotOffered::some_by(Interface::SocketIo, &[ListTyping::INFO], "`conversation:join` returns it, and `typing` reports every change"),
    ],
};
