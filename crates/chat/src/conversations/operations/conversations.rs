//! Conversations: create, list, get, update, delete.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::create::Wish;
use super::super::ops::{Conversation, ConversationPatch, ConversationSummary};
use super::super::{ConversationKind, History, Priority, page, rights};
use super::require_readable;
use crate::access::Caller;
use crate::chat::Chat;
use crate::code::Code;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::operation::{CreatesResource, Operation, OperationInfo};

/// Creates a conversation. The caller becomes its owner; where a service acts for nobody, the first member does. The direct
/// conversation of two people is created once and found again.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateConversation {
    /// What it is to be called in addresses and keys; made up if it is not said. The id of a deleted conversation is not
    /// given again.
    #[serde(default)]
    #[schema(value_type = Option<ConversationId>)]
    pub id: Option<String>,
    /// What it is.
    pub kind: ConversationKind,
    /// What people call it.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub title: Option<String>,
    /// Who is in it, besides the caller.
    #[serde(default)]
    #[schema(value_type = Vec<UserId>, max_items = 1000)]
    pub members: Vec<String>,
    /// Whether anybody may join a group; no if it is not said.
    #[serde(default)]
    pub open: Option<bool>,
    /// What members see of the time before they joined; all if it is not said.
    #[serde(default)]
    pub history: Option<History>,
    /// How much a support conversation presses; normal if it is not said.
    #[serde(default)]
    pub priority: Option<Priority>,
    /// What the caller calls this creation: a second one under the same key finds the first.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 256)]
    pub idempotency_key: Option<String>,
}

/// A conversation that is there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatedConversation {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// Whether it is new.
    #[serde(skip)]
    pub created: bool,
}

impl Operation for CreateConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.create",
        summary: "Creates a conversation, or returns the existing direct conversation of two users",
        codes: &[
            Code::InvalidId,
            Code::ReadOnlySession,
            Code::TooMany,
            Code::ConversationExists,
        ],
    };
    const CREATES: CreatesResource = CreatesResource::IfAbsent;
    const WRITES_DATABASE: bool = true;
    type Reply = CreatedConversation;

    fn created(reply: &CreatedConversation) -> bool {
        reply.created
    }

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<CreatedConversation> {
        caller.require_write_access()?;
        let members = self.members.iter().map(UserId::new);
        let wish = Wish {
            id: self.id.map(ConversationId::new).transpose()?,
            kind: self.kind,
            title: self.title,
            members: members.collect::<std::result::Result<_, _>>()?,
            open: self.open,
            history: self.history,
            priority: self.priority,
            key: self.idempotency_key,
        };
        let (row, created) = chat.conversations().create(caller, wish).await?;
        Ok(CreatedConversation {
            conversation: row.into(),
            created,
        })
    }
}

/// The caller's conversations, the one where something happened last first.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListConversations {
    /// Where the page before ended: its `nextCursor`.
    #[serde(default)]
    pub cursor: Option<String>,
    /// How many; 50 if it is not said.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<u64>,
}

/// A page of somebody's conversations.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationList {
    /// The conversations.
    pub conversations: Vec<ConversationSummary>,
    /// What to ask for the next page with; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Operation for ListConversations {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.list",
        summary: "Lists the caller's conversations by last activity, with last message, unread counts and presence",
        codes: &[Code::UserRequired],
    };
    type Reply = ConversationList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<ConversationList> {
        let user = caller.user()?;
        let limit = page::page_size(self.limit)?;
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

/// A conversation. For its members, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetConversation {
    /// Which.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

impl Operation for GetConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.get",
        summary: "Returns a conversation",
        codes: &[Code::InvalidId, Code::NotAMember, Code::NotFound],
    };
    type Reply = Conversation;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Conversation> {
        let id = require_readable(chat, caller, &self.conversation_id).await?;
        let row = chat.conversations().head(&id).await?;
        let row = row.ok_or_else(|| rights::conversation_not_found(caller, &id))?;
        Ok(row.into())
    }
}

/// Changes what is said, and leaves the rest. For owners and admins of the conversation, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateConversation {
    /// Which.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// What people call it; empty for nothing.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub title: Option<String>,
    /// Whether anybody may join a group.
    #[serde(default)]
    pub open: Option<bool>,
    /// What members see of the time before they joined.
    #[serde(default)]
    pub history: Option<History>,
    /// How much a support conversation presses.
    #[serde(default)]
    pub priority: Option<Priority>,
}

impl Operation for UpdateConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.update",
        summary: "Changes the title, openness, history or priority of a conversation",
        codes: &[
            Code::InvalidId,
            Code::ReadOnlySession,
            Code::NotAMember,
            Code::NotFound,
            Code::Forbidden,
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

/// Deletes a conversation with all its messages, for good. For its owners, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteConversation {
    /// Which.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

/// What is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedConversation {
    /// Which conversation it was.
    pub conversation_id: ConversationId,
}

impl Operation for DeleteConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "conversations.delete",
        summary: "Deletes a conversation with all its messages",
        codes: &[
            Code::InvalidId,
            Code::ReadOnlySession,
            Code::NotAMember,
            Code::NotFound,
            Code::Forbidden,
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
