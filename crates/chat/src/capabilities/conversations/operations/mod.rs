//! Operations on conversations and their members.

mod conversations;
mod join;
mod members;

pub use self::conversations::{
    ConversationList, CreateConversation, CreatedConversation, DeleteConversation,
    DeletedConversation, GetConversation, ListConversations, UpdateConversation,
};
pub use self::join::{JoinConversation, LeaveConversation};
pub use self::members::{
    GetMember, IsMember, IsMemberReply, ListMembers, MemberList, PutMember, RemoveMember,
    RemovedMember,
};

/// Page size if the request has no `limit`.
const DEFAULT_PAGE_SIZE: u64 = 50;
/// Maximum page size.
const MAX_PAGE_SIZE: u64 = 100;
