//! Operations: what a caller can ask for, each defined once for all gateways.
//!
//! Always true:
//! 1. An operation is a request type, a reply type and one function. A gateway decodes, runs and encodes; it decides nothing.
//! 2. Identifiers arrive as text and are checked by the operation, so that every gateway refuses the same ones alike.
//! 3. Whether the caller may is asked before anything is done.
//! 4. [`ALL`] lists every operation; a gateway that does not offer one says why.

use std::future::Future;

use crate::access::Caller;
use crate::chat::Chat;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::{conversations, limits, messages, presence, sessions, typing, unread};

/// Something a caller can ask for.
pub trait Operation: Sized + Send {
    /// What it is, for the references and the tables of the gateways.
    const INFO: OperationInfo;

    /// What has to be shown before it runs.
    const AUTH: AuthRequirement = AuthRequirement::Session;

    /// Whether what it answers is new.
    const CREATES: CreatesResource = CreatesResource::Never;

    /// Whether it changes rows: it is not begun while the database is known to be away.
    const WRITES_DATABASE: bool = false;

    /// What is answered.
    type Reply: Send;

    /// Does it, if the caller may.
    fn run(self, chat: &Chat, caller: &Caller) -> impl Future<Output = Result<Self::Reply>> + Send;

    /// What is answered before the store was ever there; most have to refuse.
    fn run_without_store(self) -> Result<Self::Reply> {
        Err(Error::StoreNotOpen)
    }

    /// Whether what is answered here is new. To be said by those that create [sometimes](Creates::Sometimes).
    fn created(_: &Self::Reply) -> bool {
        matches!(Self::CREATES, CreatesResource::Always)
    }
}

/// What a caller has to show before an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthRequirement {
    /// A token, and a session if it is a person's.
    #[default]
    Session,
    /// A token: the session begins here, or is asked for.
    Token,
    /// Nothing.
    None,
}

/// Whether an operation makes something that was not there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CreatesResource {
    /// It does not, or nothing that has an address of its own.
    #[default]
    Never,
    /// Each time it succeeds.
    Always,
    /// Unless it is there already; [`Operation::created`] tells.
    IfAbsent,
}

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationInfo {
    /// `capability.verb`.
    pub name: &'static str,
    /// One line for the references.
    pub summary: &'static str,
    /// The codes it refuses with, beyond those of [`EVERYWHERE`].
    pub codes: &'static [Code],
}

/// The codes any operation may refuse with.
pub const COMMON_ERROR_CODES: &[Code] = &[
    Code::TokenMissing,
    Code::TokenInvalid,
    Code::TokenExpired,
    Code::TokenNotYetValid,
    Code::KeysUnavailable,
    Code::SessionExpired,
    Code::SessionBlocked,
    Code::RateLimited,
    Code::InvalidRequest,
    Code::StoreUnavailable,
    Code::StoreFull,
    Code::DatabaseUnavailable,
    Code::DatabaseFull,
    Code::Internal,
];

/// Every operation, in the order of the reference.
pub const ALL_OPERATIONS: &[OperationInfo] = &[
    sessions::BeginSession::INFO,
    sessions::BeginVisitorSession::INFO,
    sessions::GetSession::INFO,
    sessions::EndSession::INFO,
    sessions::GetUserSession::INFO,
    sessions::UpdateUserSession::INFO,
    sessions::EndUserSession::INFO,
    sessions::ValidateSession::INFO,
    presence::GetPresence::INFO,
    presence::SetPresence::INFO,
    presence::Heartbeat::INFO,
    presence::ListDevices::INFO,
    presence::RemoveDevice::INFO,
    presence::QueryPresence::INFO,
    presence::CountPresence::INFO,
    presence::WatchPresence::INFO,
    conversations::CreateConversation::INFO,
    conversations::ListConversations::INFO,
    conversations::GetConversation::INFO,
    conversations::UpdateConversation::INFO,
    conversations::DeleteConversation::INFO,
    conversations::JoinConversation::INFO,
    conversations::LeaveConversation::INFO,
    conversations::ListMembers::INFO,
    conversations::GetMember::INFO,
    conversations::PutMember::INFO,
    conversations::RemoveMember::INFO,
    conversations::IsMember::INFO,
    messages::SendMessage::INFO,
    messages::ListMessages::INFO,
    messages::GetMessage::INFO,
    messages::EditMessage::INFO,
    messages::DeleteMessage::INFO,
    messages::CatchUpConversation::INFO,
    typing::ListTyping::INFO,
    typing::SetTyping::INFO,
    unread::MarkRead::INFO,
    unread::MarkUnread::INFO,
    unread::MarkDelivered::INFO,
    unread::ListReceipts::INFO,
    unread::GetUnread::INFO,
    limits::CheckLimit::INFO,
];
