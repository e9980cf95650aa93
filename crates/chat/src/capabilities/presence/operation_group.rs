//! Operations of the capability, and the interfaces that do not offer them.

use super::{
    CountPresence, GetPresence, Heartbeat, ListDevices, QueryPresence, RemoveDevice, SetPresence,
    WatchPresence,
};
use crate::api::operation::{Interface, NotOffered, Operation, OperationGroup};

/// All operations of the capability.
#[rustfmt::skip]
pub const OPERATIONS: OperationGroup = OperationGroup {
    operations: &[
        GetPresence::INFO,
        SetPresence::INFO,
        Heartbeat::INFO,
        ListDevices::INFO,
        RemoveDevice::INFO,
        QueryPresence::INFO,
        CountPresence::INFO,
        WatchPresence::INFO,
    ],
    not_offered: &[
        NotOffered::some_by(Interface::Http, &[WatchPresence::INFO], "a stream of changes, over gRPC or Socket.IO; with HTTP use `POST /v1/presence/query`"),
        NotOffered::some_by(Interface::SocketIo, &[GetPresence::INFO, QueryPresence::INFO], "`presence:watch` returns it and sends every change"),
        NotOffered::some_by(Interface::Grpc, &[ListDevices::INFO, RemoveDevice::INFO], "devices are managed over HTTP, by their user and by admins"),
        NotOffered::some_by(Interface::SocketIo, &[ListDevices::INFO, RemoveDevice::INFO], "devices are managed over HTTP, by their user and by admins"),
        NotOffered::some_by(Interface::Grpc, &[CountPresence::INFO], "a metric for dashboards, over HTTP"),
        NotOffered::some_by(Interface::SocketIo, &[CountPresence::INFO], "a metric for dashboards, over HTTP"),
    ],
};
