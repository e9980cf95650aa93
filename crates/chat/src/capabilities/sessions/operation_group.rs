//! Operations of the capability, and the interfaces that do not offer them.

use super::{
    BeginSession, BeginVisitorSession, EndSession, EndUserSession, GetSession, GetUserSession,
    UpdateUserSession, ValidateSession,
};
use crate::api::operation::{Interface, NotOffered, Operation, OperationGroup};

/// All operations of the capability.
#[rustfmt::skip]
pub const OPERATIONS: OperationGroup = OperationGroup {
    operations: &[
        BeginSession::INFO,
        BeginVisitorSession::INFO,
        GetSession::INFO,
        EndSession::INFO,
        GetUserSession::INFO,
        UpdateUserSession::INFO,
        EndUserSession::INFO,
        ValidateSession::INFO,
    ],
    not_offered: &[
        NotOffered::some_by(Interface::Grpc, &[BeginSession::INFO, BeginVisitorSession::INFO, GetSession::INFO, EndSession::INFO, GetUserSession::INFO, UpdateUserSession::INFO, EndUserSession::INFO], "sessions are managed over HTTP"),
        NotOffered::some_by(Interface::SocketIo, &[BeginSession::INFO, BeginVisitorSession::INFO, GetSession::INFO, EndSession::INFO, GetUserSession::INFO, UpdateUserSession::INFO, EndUserSession::INFO], "sessions are managed over HTTP; a Socket.IO connection begins a session by itself"),
        NotOffered::some_by(Interface::Http, &[ValidateSession::INFO], "for services with many requests, over gRPC; with HTTP use `GET /v1/admin/sessions/{user}`"),
        NotOffered::some_by(Interface::SocketIo, &[ValidateSession::INFO], "for services, over gRPC"),
    ],
};
