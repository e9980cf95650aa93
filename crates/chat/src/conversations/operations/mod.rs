//! What callers can ask of conversations.

mod conversations;
mod members;

use super::rights::rules;
use crate::access::Caller;
use crate::chat::Chat;
use crate::error::Result;
use crate::ids::ConversationId;

pub use self::conversations::{
    ConversationList, CreateConversation, Created, DeleteConversation, Deleted, GetConversation,
    ListConversations, UpdateConversation,
};
pub use self::members::{
    GetMember, IsMember, JoinConversation, LeaveConversation, Left, ListMembers, MemberList,
    Membership, PutMember, RemoveMember,
};

/// The conversation of this id, which the caller may look at: a member, an admin, a service.
async fn readable(chat: &Chat, caller: &Caller, id: &str) -> Result<ConversationId> {
    if rules(caller) {
        return Ok(ConversationId::new(id)?);
    }
    caller.member_of(id, chat.members()).await
}
