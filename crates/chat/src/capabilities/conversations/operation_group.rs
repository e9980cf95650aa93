//! Operations of the capability, and the interfaces that do not offer them.

use super::{
    CreateConversation, DeleteConversation, GetConversation, GetMember, IsMember, JoinConversation,
    LeaveConversation, ListConversations, ListMembers, PutMember, RemoveMember, UpdateConversation,
};
use crate::api::operation::{Interface, NotOffered, Operation, OperationGroup};

/// All operations of the capability.
#[rustfmt::skip]
pub const OPERATIONS: OperationGroup = OperationGroup {
    operations: &[
        CreateConversation::INFO,
        ListConversations::INFO,
        GetConversation::INFO,
        UpdateConversation::INFO,
        DeleteConversation::INFO,
        JoinConversation::INFO,
        LeaveConversation::INFO,
        ListMembers::INFO,
        GetMember::INFO,
        PutMember::INFO,
        RemoveMember::INFO,
        IsMember::INFO,
    ],
    not_offered: &[
        NotOffered::some_by(Interface::Grpc, &[CreateConversation::INFO, ListConversations::INFO, GetConversation::INFO, UpdateConversation::INFO, DeleteConversation::INFO, JoinConversation::INFO, LeaveConversation::INFO, ListMembers::INFO, GetMember::INFO, PutMember::INFO, RemoveMember::INFO], "conversations are managed over HTTP"),
        NotOffered::some_by(Interface::SocketIo, &[CreateConversation::INFO, ListConversations::INFO, GetConversation::INFO, UpdateConversation::INFO, DeleteConversation::INFO, ListMembers::INFO, GetMember::INFO, PutMember::INFO, RemoveMember::INFO], "conversations are managed over HTTP"),
        NotOffered::some_by(Interface::SocketIo, &[JoinConversation::INFO, LeaveConversation::INFO], "membership changes over HTTP; `conversation:join` and `conversation:leave` start and stop the live events for a member"),
        NotOffered::some_by(Interface::Http, &[IsMember::INFO], "for services with many requests, over gRPC; with HTTP use `GET /v1/conversations/{id}/members/{user}`"),
        NotOffered::some_by(Interface::SocketIo, &[IsMember::INFO], "for services, over gRPC"),
    ],
};
