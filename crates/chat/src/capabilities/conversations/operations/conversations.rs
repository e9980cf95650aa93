//! Operations on conversations: create, list, get, update, delete.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::model::{
    Conversation, ConversationKind, ConversationPatch, ConversationSummary, HistoryVisibility,
    SupportPriority,
};
use super::super::permissions::conversation_not_found;
use super::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE};
use crate::api::caller::Caller;
use crate::api::error::Result;
use crate::api::error_code::ErrorCode;
use crate::api::operation::{CreatesResource, Operation, OperationInfo};
use crate::api::pagination;
use crate::chat::Chat;
use crate::ids::{ConversationId, UserId};

/// Creates a conversation. The caller becomes its owner; if a service does not act for a user, the first member does.
/// The direct conversation of two users exists once: creating it again returns the existing one.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "id": "c42", "kind": "group", "title": "Lunch", "members": ["bob"], "open": true }))]
pub struct CreateConversation {
    /// Id of the new conversation. Default: a generated UUID. The id of a deleted conversation cannot be used again.
    #[serde(default)]
    #[schema(value_type = Option<ConversationId>)]
    pub id: Option<String>,
    /// Kind of the conversation.
    pub kind: ConversationKind,
    /// Title, at most 256 bytes. Default: none.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub title: Option<String>,
    /// Ids of the members besides the caller, at most 1,000.
    #[serde(default)]
    #[schema(value_type = Vec<UserId>, max_items = 1000)]
    pub members: Vec<String>,
    /// True if every user may join; only for a group. Default: false.
    #[serde(default)]
    pub open: Option<bool>,
    /// Whether members see messages that were sent before they joined. Default: `all`.
    #[serde(default)]
    pub history: Option<HistoryVisibility>,
    /// Priority; only for a support conversation. Default: `normal`.
    #[serde(default)]
    pub priority: Option<SupportPriority>,
    /// Idempotency key, 1 to 256 bytes: if the same caller repeats it, the reply is the first conversation.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    pub idempotency_key: Option<String>,
}

/// The created or existing conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatedConversation {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// True if this call created the conversation.
    #[serde(skip)]
    pub created: bool,
}

impl Operation for CreateConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.create",
        summary: "Creates a conversation, or returns the existing direct conversation of two users",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::ReadOnlySession,
            ErrorCode::TooMany,
            ErrorCode::ConversationExists,
        ],
    };
    const CREATES: CreatesResource = CreatesResource::IfAbsent;
    const WRITES_DATABASE: bool = true;
    type Reply = CreatedConversation;

    fn is_new(reply: &CreatedConversation) -> bool {
        reply.created
    }

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<CreatedConversation> {
        caller.require_write_access()?;
        let (row, created) = chat.conversations().create(caller, self).await?;
        Ok(CreatedConversation {
            conversation: row.into(),
            created,
        })
    }
}

/// Lists the caller's conversations by their last activity, newest first.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListConversations {
    /// `nextCursor` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Maximum number of conversations in the page. Default: 50.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<u64>,
}

/// A page of the caller's conversations.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationList {
    /// Conversations of the page.
    pub conversations: Vec<ConversationSummary>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Operation for ListConversations {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.list",
        summary: "Lists the caller's conversations by last activity, with last message, unread counts and presence",
        codes: &[ErrorCode::UserRequired],
    };
    type Reply = ConversationList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<ConversationList> {
        let user = caller.require_user()?;
        let limit = pagination::page_size(self.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
        let listed = chat
            .conversations()
            .list_conversations(user, self.cursor.as_deref(), limit);
        let (conversations, next_cursor) = listed.await?;
        Ok(ConversationList {
            conversations,
            next_cursor,
        })
    }
}

/// Returns a conversation. For its members, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetConversation {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

impl Operation for GetConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.get",
        summary: "Returns a conversation",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::NotAMember,
            ErrorCode::NotFound,
        ],
    };
    type Reply = Conversation;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Conversation> {
        let conversations = chat.conversations();
        let id = conversations.require_readable(caller, &self.conversation_id);
        let id = id.await?;
        let row = conversations.find_conversation(&id).await?;
        let row = row.ok_or_else(|| conversation_not_found(caller, &id))?;
        Ok(row.into())
    }
}

/// Changes the given fields of a conversation. For owners and admins of the conversation, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateConversation {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// New title, at most 256 bytes; empty to remove the title.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub title: Option<String>,
    /// True if every user may join; only for a group.
    #[serde(default)]
    pub open: Option<bool>,
    /// Whether members see messages that were sent before they joined.
    #[serde(default)]
    pub history: Option<HistoryVisibility>,
    /// Priority; only for a support conversation.
    #[serde(default)]
    pub priority: Option<SupportPriority>,
}

impl Operation for UpdateConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.update",
        summary: "Changes the title, openness, history or priority of a conversation",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::ReadOnlySession,
            ErrorCode::NotAMember,
            ErrorCode::NotFound,
            ErrorCode::Forbidden,
        ],
    };
    const WRITES_DATABASE: bool = true;
    type Reply = Conversation;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Conversation> {
        caller.require_write_access()?;
        let id = ConversationId::new(&self.conversation_id)?;
        let patch = ConversationPatch {
            title: self.title,
            open: self.open,
            history: self.history,
            priority: self.priority,
        };
        let row = chat.conversations().update(caller, &id, patch).await?;
        Ok(row.into())
    }
}

/// Deletes a conversation with all its messages permanently. For owners of the conversation, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteConversation {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

/// The deleted conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedConversation {
    /// Id of the deleted conversation.
    pub conversation_id: ConversationId,
}

impl Operation for DeleteConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.delete",
        summary: "Deletes a conversation with all its messages",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::ReadOnlySession,
            ErrorCode::NotAMember,
            ErrorCode::NotFound,
            ErrorCode::Forbidden,
        ],
    };
    const WRITES_DATABASE: bool = true;
    type Reply = DeletedConversation;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<DeletedConversation> {
        caller.require_write_access()?;
        let conversation_id = ConversationId::new(&self.conversation_id)?;
        let conversations = chat.conversations();
        conversations.delete(caller, &conversation_id).await?;
        Ok(DeletedConversation { conversation_id })
    }
}
