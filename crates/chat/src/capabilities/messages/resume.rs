//! Operation `messages.catch_up`: what a member missed in a conversation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Message;
use crate::api::caller::Caller;
use crate::api::error::Result;
use crate::api::error_code::ErrorCode;
use crate::api::operation::{Operation, OperationInfo};
use crate::chat::Chat;
use crate::ids::ConversationId;
use crate::typing::TypingUser;

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
        let (missed, unread, typing) = tokio::try_join!(missed, unread, typing)?;
        Ok(JoinReply {
            missed: missed.messages,
            last_seq: missed.last_seq,
            rev: missed.rev,
            unread,
            typing,
            has_more: missed.has_more,
        })
    }
}
