//! Operations of messages.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::history::MAX_HISTORY_PAGE_SIZE;
use super::{HistoryAnchor, Message, MessageEdit, MessageList, NewMessage, SentMessage};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::api::error_code::ErrorCode;
use crate::api::operation::{CreatesResource, Operation, OperationInfo};
use crate::chat::Chat;
use crate::conversations::Conversation;
use crate::ids::ConversationId;
use crate::typing::TypingUser;

/// Page size if the request has no `limit`.
const DEFAULT_PAGE_SIZE: u64 = 50;

/// Sends a message to a conversation. The reply means that the message is committed to the database.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Text of the message, by default at most 8192 bytes. It may be empty if there is `metadata`.
    #[serde(default)]
    pub content: String,
    /// Additional data, by default at most 4096 bytes of JSON. The field `mentions` is a list of up to 50 user ids.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// Id that the client chooses for this message, 1 to 128 bytes. If the sender has already used it in this
    /// conversation, nothing is sent and the reply is the first message.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub client_id: Option<String>,
}

impl Operation for SendMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.send",
        summary: "Sends a message",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::ReadOnlySession,
            ErrorCode::NotAMember,
            ErrorCode::ContentTooLarge,
            ErrorCode::TooMany,
        ],
    };
    const CREATES: CreatesResource = CreatesResource::IfAbsent;
    const WRITES_DATABASE: bool = true;
    type Reply = SentMessage;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SentMessage> {
        // Destructured, so that the future does not keep the request beside the `NewMessage` that takes over its
        // fields.
        let Self {
            conversation_id,
            content,
            metadata,
            client_id,
        } = self;
        let conversation = ConversationId::new(conversation_id)?;
        let new = NewMessage {
            content,
            metadata,
            client_id,
        };
        chat.messages().send(caller, &conversation, new).await
    }

    fn is_new(reply: &SentMessage) -> bool {
        !reply.is_duplicate
    }
}

/// Lists messages of a conversation, oldest first: the newest ones, or those right before or right after a `seq`. For
/// members of the conversation.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMessages {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Returns the messages right before this `seq`. Cannot be combined with `after`.
    #[serde(default)]
    pub before: Option<u64>,
    /// Returns the messages right after this `seq`. Cannot be combined with `before`.
    #[serde(default)]
    pub after: Option<u64>,
    /// Maximum number of messages, from 1 to 100. Default: 50.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100, default = 50)]
    pub limit: Option<u64>,
}

impl Operation for ListMessages {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.list",
        summary: "Lists messages of a conversation, oldest first",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::NotAMember,
        ],
    };
    type Reply = MessageList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<MessageList> {
        let anchor = match (self.before, self.after) {
            (None, None) => HistoryAnchor::Newest,
            (Some(seq), None) => HistoryAnchor::Before(seq),
            (None, Some(seq)) => HistoryAnchor::After(seq),
            (Some(_), Some(_)) => {
                let text = "`before` and `after` are both given; give only one of them".to_owned();
                return Err(Error::InvalidRequest(text));
            }
        };
        let limit = self.limit.unwrap_or(DEFAULT_PAGE_SIZE);
        if !(1..=MAX_HISTORY_PAGE_SIZE).contains(&limit) {
            let text =
                format!("`limit` is {limit}, which is not from 1 to {MAX_HISTORY_PAGE_SIZE}");
            return Err(Error::InvalidRequest(text));
        }
        let conversation = chat
            .conversations()
            .require_member(caller, &self.conversation_id)
            .await?;
        let (messages, user) = (chat.messages(), caller.user.as_ref());
        match messages.history(&conversation, user, anchor, limit).await {
            // A service may read every conversation, even on behalf of a user who is not a member.
            Err(Error::NotAMember(_)) if caller.role == Role::Service => {
                messages.history(&conversation, None, anchor, limit).await
            }
            found => found,
        }
    }
}

/// Returns one message. For members of the conversation.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetMessage {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `seq` of the message.
    pub seq: u64,
}

impl Operation for GetMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.get",
        summary: "Returns one message",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::NotAMember,
            ErrorCode::NotFound,
        ],
    };
    type Reply = Message;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Message> {
        let conversation = chat
            .conversations()
            .require_member(caller, &self.conversation_id)
            .await?;
        let (messages, user) = (chat.messages(), caller.user.as_ref());
        match messages.find_message(&conversation, user, self.seq).await {
            // A service may read every conversation, even on behalf of a user who is not a member.
            Err(Error::NotAMember(_)) if caller.role == Role::Service => {
                messages.find_message(&conversation, None, self.seq).await
            }
            found => found,
        }
    }
}

/// Replaces the text or the metadata of a message. The sender may do this within the edit window (by default 5 minutes
/// after sending). Owners and admins of the conversation, admins and services may do it at any time.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditMessage {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `seq` of the message.
    pub seq: u64,
    /// New text. If it is absent, the text stays unchanged.
    #[serde(default)]
    pub content: Option<String>,
    /// New metadata. If it is absent, the metadata stays unchanged. An edit does not change which users count as
    /// mentioned.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
}

impl Operation for EditMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.edit",
        summary: "Edits a message",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::ReadOnlySession,
            ErrorCode::NotAMember,
            ErrorCode::Forbidden,
            ErrorCode::NotFound,
            ErrorCode::ContentTooLarge,
            ErrorCode::TooMany,
            ErrorCode::EditWindowOver,
            ErrorCode::MessageDeleted,
        ],
    };
    const WRITES_DATABASE: bool = true;
    type Reply = Message;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Message> {
        let conversation = require_writer(caller, &self.conversation_id)?;
        let edit = MessageEdit {
            content: self.content,
            metadata: self.metadata,
        };
        let messages = chat.messages();
        messages.edit(caller, &conversation, self.seq, edit).await
    }
}

/// Deletes the text and the metadata of a message; the message keeps its `seq`. Callers who may edit a message may
/// delete it. Repeating a delete has no effect.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteMessage {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `seq` of the message.
    pub seq: u64,
}

impl Operation for DeleteMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.delete",
        summary: "Deletes a message",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::ReadOnlySession,
            ErrorCode::NotAMember,
            ErrorCode::Forbidden,
            ErrorCode::NotFound,
            ErrorCode::EditWindowOver,
        ],
    };
    const WRITES_DATABASE: bool = true;
    type Reply = Message;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Message> {
        let conversation = require_writer(caller, &self.conversation_id)?;
        chat.messages()
            .delete(caller, &conversation, self.seq)
            .await
    }
}

/// Returns what the caller missed in a conversation. For members of the conversation. Call this operation after
/// subscribing to the conversation, so that no message is missed between both.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatchUpConversation {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `seq` of the last message that the caller has. If it is absent, no missed messages are returned.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// Last `rev` that the caller has. If it is absent, no changes of older messages are returned.
    #[serde(default)]
    pub after_rev: Option<u64>,
}

/// Missed messages of a member, and the state of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinReply {
    /// Messages after `afterSeq`, at most 500, and older messages that were changed after `afterRev`, at most 500;
    /// ordered by `seq`.
    pub missed: Vec<Message>,
    /// `seq` of the newest message; 0 if there is none.
    pub last_seq: u64,
    /// Revision up to which `missed` contains all changes. Send it as `afterRev` in the next request.
    pub rev: u64,
    /// Number of unread messages of the caller in this conversation.
    pub unread: u64,
    /// Users who are typing.
    pub typing: Vec<TypingUser>,
    /// Version of the members. Load the members again if it differs from the version that you know.
    pub members_version: u64,
    /// The conversation as it is now.
    pub conversation: Conversation,
    /// True if the caller missed more than `missed` contains. Load further messages with `history`, and further changes
    /// with this `rev` as `afterRev`.
    pub has_more: bool,
}

impl Operation for CatchUpConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.catch_up",
        summary: "Returns what a member missed in a conversation",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::NotAMember,
        ],
    };
    type Reply = JoinReply;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<JoinReply> {
        let user = caller.require_user()?;
        let conversation = chat
            .conversations()
            .require_member(caller, &self.conversation_id)
            .await?;
        let messages = chat.messages();
        let missed = messages.read_missed(&conversation, user, self.after_seq, self.after_rev);
        let unread = chat.unread().count_in_conversation(user, &conversation);
        let typing = chat.typing().typing_users(&conversation);
        let row = chat.conversations().find_conversation(&conversation);
        let (missed, unread, typing, row) = tokio::try_join!(missed, unread, typing, row)?;
        let row = row.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
        Ok(JoinReply {
            missed: missed.messages,
            last_seq: missed.last_seq,
            rev: missed.rev,
            unread,
            typing,
            members_version: row.members_version,
            conversation: row.into(),
            has_more: missed.has_more,
        })
    }
}

/// Checks that the caller may write and parses the conversation id. The database rows decide which messages the caller
/// may change.
fn require_writer(caller: &Caller, conversation: &str) -> Result<ConversationId> {
    if caller.role == Role::User {
        caller.require_user()?;
    }
    caller.require_write_access()?;
    Ok(ConversationId::new(conversation)?)
}
