//! Operations of the capability, and the interfaces that do not offer them.

use super::{
    CatchUpConversation, DeleteMessage, EditMessage, GetMessage, ListMessages, SendMessage,
};
use crate::api::operation::{Interface, NotOffered, Operation, OperationGroup};

/// All operations of the capability.
#[rustfmt::skip]
pub const OPERATIONS: OperationGroup = OperationGroup {
    operations: &[
        SendMessage::INFO,
        ListMessages::INFO,
        GetMessage::INFO,
        EditMessage::INFO,
        DeleteMessage::INFO,
        CatchUpConversation::INFO,
    ],
    not_offered: &[
        NotOffered::some_by(Interface::Grpc, &[GetMessage::INFO, EditMessage::INFO, DeleteMessage::INFO], "for chat apps, over Socket.IO and HTTP"),
        NotOffered::some_by(Interface::Grpc, &[CatchUpConversation::INFO], "for clients with live events, over Socket.IO"),
        NotOffered::some_by(Interface::Http, &[CatchUpConversation::INFO], "for clients with live events, over Socket.IO; with HTTP use `GET /v1/conversations/{id}/messages?after=`"),
        NotOffered::some_by(Interface::SocketIo, &[GetMessage::INFO], "`history` returns it"),
    ],
};
