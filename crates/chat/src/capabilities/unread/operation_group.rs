//! Operations of the capability, and the interfaces that do not offer them.

use super::{GetUnread, ListReceipts, MarkDelivered, MarkRead, MarkUnread};
use crate::api::operation::{Interface, NotOffered, Operation, OperationGroup};

/// All operations of the capability.
#[rustfmt::skip]
pub const OPERATIONS: OperationGroup = OperationGroup {
    operations: &[
        MarkRead::INFO,
        MarkUnread::INFO,
        MarkDelivered::INFO,
        ListReceipts::INFO,
        GetUnread::INFO,
    ],
    not_offered: &[
        NotOffered::some_by(Interface::Grpc, &[MarkUnread::INFO, MarkDelivered::INFO, ListReceipts::INFO], "for chat apps, over Socket.IO and HTTP"),
        NotOffered::some_by(Interface::SocketIo, &[ListReceipts::INFO], "read once over HTTP when a conversation is opened; events then report every change"),
        NotOffered::some_by(Interface::SocketIo, &[GetUnread::INFO], "read once over HTTP when an app is opened; `unread` then reports every change"),
    ],
};
