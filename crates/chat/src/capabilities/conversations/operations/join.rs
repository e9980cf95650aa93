//! Operations of a user on the own membership: join, leave.

use serde::Deserialize;
use utoipa::ToSchema;

use super::super::model::Conversation;
use super::members::{MEMBER_CHANGE_CODES, RemovedMember};
use crate::api::caller::Caller;
use crate::api::error::Result;
use crate::api::operation::{Operation, OperationInfo};
use crate::chat::Chat;
use crate::ids::ConversationId;

/// Adds the caller to a conversation: users to an open group, services to any group, admins and services to a support
/// conversation. Repeating the call has no effect.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinConversation {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

impl Operation for JoinConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.join",
        summary: "Joins an open group, or as an admin or service a support conversation",
        codes: MEMBER_CHANGE_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = Conversation;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Conversation> {
        caller.require_write_access()?;
        let id = ConversationId::new(&self.conversation_id)?;
        let row = chat.conversations().join_conversation(caller, &id).await?;
        Ok(row.into())
    }
}

/// Removes the caller from a conversation. If the last owner leaves, the longest-standing admin becomes owner, or the
/// longest-standing member if there is no admin. Repeating the call has no effect.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaveConversation {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

impl Operation for LeaveConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.leave",
        summary: "Leaves a conversation",
        codes: MEMBER_CHANGE_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = RemovedMember;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<RemovedMember> {
        let user_id = caller.require_user()?.clone();
        let conversation_id = ConversationId::new(&self.conversation_id)?;
        let conversations = chat.conversations();
        let removed = conversations.remove_member(caller, &conversation_id, &user_id);
        removed.await?;
        Ok(RemovedMember {
            conversation_id,
            user_id,
        })
    }
}
