//! What a client asks that comes back to a conversation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Message;
use crate::access::Caller;
use crate::chat::Chat;
use crate::code::Code;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::operation::{Operation, OperationInfo};
use crate::typing::TypingUser;

/// What the caller missed of a conversation. For its members, when they begin to be told what happens there: asked after
/// that, so that nothing lies between.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatchUpConversation {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// The last message that the caller knows; without it nothing was missed.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// The last revision that the caller knows; without it no changes of older messages are told.
    #[serde(default)]
    pub after_rev: Option<u64>,
}

/// What somebody missed of a conversation, and how it stands.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinReply {
    /// Messages after `afterSeq`, at most 500, and older ones that were changed after `afterRev`, at most 500; by `seq`.
    pub missed: Vec<Message>,
    /// The number of the newest message; 0 if there is none.
    pub last_seq: u64,
    /// The revision up to which changes are told; to be given as `afterRev` the next time.
    pub rev: u64,
    /// How many messages wait for the caller.
    pub unread: u64,
    /// Who types.
    pub typing: Vec<TypingUser>,
    /// Whether more was missed than is told: further messages are asked for with `history`, further changes with this `rev`
    /// as `afterRev`.
    pub has_more: bool,
}

impl Operation for CatchUpConversation {
    const INFO: OperationInfo = OperationInfo {
        name: "messages.catch_up",
        summary: "Returns what a member missed in a conversation",
        codes: &[Code::InvalidId, Code::UserRequired, Code::NotAMember],
    };
    type Reply = JoinReply;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<JoinReply> {
        let user = caller.user()?;
        let conversation = caller
            .authorize_member(&self.conversation_id, chat.members())
            .await?;
        let messages = chat.messages();
        let missed = messages.read_missed(&conversation, user, self.after_seq, self.after_rev);
        let unread = chat.unread().count_in_conversation(user, &conversation);
        let typing = chat.typing().typers(&conversation);
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
