//! Operations on conversations and their members.

mod conversations;
mod members;

use super::permissions::is_admin_or_service;
use crate::api::caller::Caller;
use crate::api::error::Result;
use crate::chat::Chat;
use crate::ids::ConversationId;

pub use self::conversations::{
    ConversationList, CreateConversation, CreatedConversation, DeleteConversation,
    DeletedConversation, GetConversation, ListConversations, UpdateConversation,
};
pub use self::members::{
    GetMember, IsMember, IsMemberReply, JoinConversation, LeaveConversation, ListMembers,
    MemberList, PutMember, RemoveMember, RemovedMember,
};

/// Parses a conversation id, and checks that the caller may see the conversation: as a member, an admin or a service.
async fn require_readable(chat: &Chat, caller: &Caller, id: &str) -> Result<ConversationId> {
    if is_admin_or_service(caller) {
        return Ok(ConversationId::new(id)?);
    }
    caller.authorize_member(id, chat.members()).await
}
