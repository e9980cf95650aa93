//! What callers can ask of messages.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{HistoryAnchor, MAX_HISTORY_PAGE_SIZE, Message, MessageEdit, MessageList, NewMessage};
use crate::access::{Caller, Role};
use crate::chat::Chat;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::operation::{CreatesResource, Operation, OperationInfo};

/// Messages of a page if it is not said.
const DEFAULT_PAGE_SIZE: u64 = 50;

/// Sends a message. Answered when it is on disk.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// The text; may be empty if there is metadata.
    #[serde(default)]
    pub content: String,
    /// What is added to it. `mentions` is a list of user ids.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// What the client calls it: the same again is answered with the first message.
    #[serde(default)]
    #[schema(min_length = 1, max_length = 128)]
    pub client_id: Option<String>,
}

/// The message that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SentMessage {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// It was sent before, by the same `clientId`.
    #[serde(skip)]
    pub repeated: bool,
}

impl Operation for SendMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.send",
        summary: "Sends a message",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::ReadOnlySession,
            Code::NotAMember,
            Code::ContentTooLarge,
            Code::TooMany,
        ],
    };
    const CREATES: CreatesResource = CreatesResource::IfAbsent;
    const WRITES_DATABASE: bool = true;
    type Reply = SentMessage;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SentMessage> {
        // Taken apart, so that it is not kept beside what it is moved into.
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
        let sent = chat.messages().send(caller, &conversation, new).await?;
        Ok(SentMessage {
            message: sent.message,
            repeated: sent.is_duplicate,
        })
    }

    fn created(reply: &SentMessage) -> bool {
        !reply.repeated
    }
}

/// Messages of a conversation: those before a number, those after it, or the newest. For its members.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMessages {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// The messages right before this one.
    #[serde(default)]
    pub before: Option<u64>,
    /// The messages right after this one.
    #[serde(default)]
    pub after: Option<u64>,
    /// How many at most; 50 if it is not said.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100, default = 50)]
    pub limit: Option<u64>,
}

impl Operation for ListMessages {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.list",
        summary: "Lists messages of a conversation, oldest first",
        codes: &[Code::InvalidId, Code::UserRequired, Code::NotAMember],
    };
    type Reply = MessageList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<MessageList> {
        let page = match (self.before, self.after) {
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
        let conversation = caller
            .authorize_member(&self.conversation_id, chat.members())
            .await?;
        let (messages, user) = (chat.messages(), caller.user.as_ref());
        match messages.history(&conversation, user, page, limit).await {
            // A service is as good as a member, for whomever it acts.
            Err(Error::NotAMember(_)) if caller.role == Role::Service => {
                messages.history(&conversation, None, page, limit).await
            }
            found => found,
        }
    }
}

/// One message. For the members of its conversation.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetMessage {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Its number.
    pub seq: u64,
}

impl Operation for GetMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.get",
        summary: "Returns one message",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::NotAMember,
            Code::NotFound,
        ],
    };
    type Reply = Message;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Message> {
        let conversation = caller
            .authorize_member(&self.conversation_id, chat.members())
            .await?;
        let (messages, user) = (chat.messages(), caller.user.as_ref());
        match messages.one(&conversation, user, self.seq).await {
            // A service is as good as a member, for whomever it acts.
            Err(Error::NotAMember(_)) if caller.role == Role::Service => {
                messages.one(&conversation, None, self.seq).await
            }
            found => found,
        }
    }
}

/// Gives a message another text or other metadata. For its sender within some minutes; for owners and admins of the
/// conversation, for admins and services any time.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditMessage {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Its number.
    pub seq: u64,
    /// The text; as it was if it is not said.
    #[serde(default)]
    pub content: Option<String>,
    /// The metadata; as it was if it is not said. Who is mentioned in it is not told by an edit.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
}

impl Operation for EditMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.edit",
        summary: "Edits a message",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::ReadOnlySession,
            Code::NotAMember,
            Code::Forbidden,
            Code::NotFound,
            Code::ContentTooLarge,
            Code::TooMany,
            Code::EditWindowOver,
            Code::MessageDeleted,
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

/// Takes the content of a message away; its number stays. For the same people as an edit. Again it is harmless.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteMessage {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Its number.
    pub seq: u64,
}

impl Operation for DeleteMessage {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.delete",
        summary: "Deletes a message",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::ReadOnlySession,
            Code::NotAMember,
            Code::Forbidden,
            Code::NotFound,
            Code::EditWindowOver,
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

/// The conversation of this id, if the caller may change anything at all; whose messages is decided by the rows.
fn require_writer(caller: &Caller, conversation: &str) -> Result<ConversationId> {
    if caller.role == Role::User {
        caller.user()?;
    }
    caller.require_write_access()?;
    Ok(ConversationId::new(conversation)?)
}
