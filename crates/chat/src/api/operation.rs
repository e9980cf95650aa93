//! Operations: the requests that a caller can make, each defined once for all gateways.
//!
//! Invariants:
//! 1. An operation is a request type, a reply type and one function. A gateway only decodes the request, runs the
//!    operation and encodes the reply.
//! 2. Identifiers arrive as text and are validated by the operation, so that every gateway rejects the same ones.
//! 3. An operation checks the authorization of the caller before it changes or returns anything.
//! 4. Each capability lists its operations once, with the interfaces that do not offer them and the reason
//!    ([`OperationGroup`]). Every other operation is in the table of each gateway.

use std::future::Future;

use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::api::error_code::ErrorCode;
use crate::chat::Chat;
use crate::{conversations, limits, messages, presence, sessions, typing, unread};

/// A request that a caller can make.
pub trait Operation: Sized + Send {
    /// Name, summary and error codes, for the references and the tables of the gateways.
    const INFO: OperationInfo;

    /// Credentials that the caller must present.
    const AUTH: AuthRequirement = AuthRequirement::Session;

    /// Whether a successful call creates a resource.
    const CREATES: CreatesResource = CreatesResource::Never;

    /// True if the operation writes to the database. Such an operation is not started while the database is known to be
    /// unavailable.
    const WRITES_DATABASE: bool = false;

    /// The reply of a successful call.
    type Reply: Send;

    /// Checks the authorization of the caller and runs the operation.
    fn run(self, chat: &Chat, caller: &Caller) -> impl Future<Output = Result<Self::Reply>> + Send;

    /// The reply before the store was opened for the first time. Most operations fail.
    fn run_without_store(self) -> Result<Self::Reply> {
        Err(Error::StoreNotOpen)
    }

    /// True if this reply describes a newly created resource. Operations that create [if
    /// absent](CreatesResource::IfAbsent) override this.
    fn is_new(_: &Self::Reply) -> bool {
        matches!(Self::CREATES, CreatesResource::Always)
    }
}

/// Credentials that a caller must present before an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthRequirement {
    /// A token, and for a person also a session.
    #[default]
    Session,
    /// A token. The operation itself begins or checks the session.
    Token,
    /// No credentials.
    None,
}

/// Whether a successful call creates a resource. HTTP then answers 201 instead of 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CreatesResource {
    /// Never, or a resource without an address of its own.
    #[default]
    Never,
    /// Each successful call.
    Always,
    /// Only if the resource does not exist; [`Operation::is_new`] decides for each reply.
    IfAbsent,
}

/// Name, summary and error codes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationInfo {
    /// Name in the form `capability.verb`.
    pub name: &'static str,
    /// Summary for the references, one line without a full stop.
    pub summary: &'static str,
    /// Error codes that the operation can return in addition to [`COMMON_ERROR_CODES`].
    pub codes: &'static [ErrorCode],
}

/// Error codes that any operation can return.
pub const COMMON_ERROR_CODES: &[ErrorCode] = &[
    ErrorCode::TokenMissing,
    ErrorCode::TokenInvalid,
    ErrorCode::TokenExpired,
    ErrorCode::TokenNotYetValid,
    ErrorCode::KeysUnavailable,
    ErrorCode::SessionExpired,
    ErrorCode::SessionBlocked,
    ErrorCode::RateLimited,
    ErrorCode::InvalidRequest,
    ErrorCode::StoreUnavailable,
    ErrorCode::StoreFull,
    ErrorCode::DatabaseUnavailable,
    ErrorCode::DatabaseFull,
    ErrorCode::Internal,
];

/// Interface over which callers run operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// HTTP routes.
    Http,
    /// gRPC methods.
    Grpc,
    /// Events of Socket.IO clients.
    SocketIo,
}

/// Operations of one capability.
#[derive(Debug)]
pub struct OperationGroup {
    /// The operations, in the order of the reference.
    pub operations: &'static [OperationInfo],
    /// Interfaces that do not offer all of these operations.
    pub not_offered: &'static [NotOffered],
}

/// Operations that an interface does not offer, with the reason.
#[derive(Debug)]
pub struct NotOffered {
    /// The interface.
    pub interface: Interface,
    /// The operations; `None` means all operations of the capability.
    operations: Option<&'static [OperationInfo]>,
    /// Reason for the references.
    pub reason: &'static str,
}

impl NotOffered {
    /// The interface offers no operation of the capability.
    pub const fn all_by(interface: Interface, reason: &'static str) -> Self {
        Self {
            interface,
            operations: None,
            reason,
        }
    }

    /// The interface does not offer these operations.
    pub const fn some_by(
        interface: Interface,
        operations: &'static [OperationInfo],
        reason: &'static str,
    ) -> Self {
        Self {
            interface,
            operations: Some(operations),
            reason,
        }
    }

    /// The operations that the interface does not offer.
    pub fn operations(&self, group: &OperationGroup) -> &'static [OperationInfo] {
        self.operations.unwrap_or(group.operations)
    }
}

/// The operations of all capabilities, in the order of the reference.
pub const OPERATION_GROUPS: &[OperationGroup] = &[
    sessions::OPERATIONS,
    presence::OPERATIONS,
    conversations::OPERATIONS,
    messages::OPERATIONS,
    typing::OPERATIONS,
    unread::OPERATIONS,
    limits::OPERATIONS,
];

/// All operations, in the order of the reference.
pub fn all_operations() -> impl Iterator<Item = OperationInfo> {
    let groups = OPERATION_GROUPS.iter();
    groups.flat_map(|group| group.operations.iter().copied())
}
