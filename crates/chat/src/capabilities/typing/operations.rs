//! Operations of typing indicators.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::TypingUser;
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::api::error_code::ErrorCode;
use crate::api::operation::{Operation, OperationInfo};
use crate::chat::Chat;
use crate::ids::ConversationId;

/// Maximum length of a display name in bytes, as in a token.
const MAX_NAME_BYTES: usize = 256;

/// Lists the users who are typing in a conversation, ordered by id. For members.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListTyping {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

/// Users who are typing in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TypingUserList {
    /// The users, ordered by id.
    pub typing: Vec<TypingUser>,
}

impl Operation for ListTyping {
    const INFO: OperationInfo = OperationInfo {
        name: "typing.list",
        summary: "Lists who is typing in a conversation",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::NotAMember,
        ],
    };
    type Reply = TypingUserList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<TypingUserList> {
        let conversation = chat
            .conversations()
            .require_member(caller, &self.conversation_id)
            .await?;
        let typing = chat.typing().typing_users(&conversation).await?;
        Ok(TypingUserList { typing })
    }
}

/// Reports that the caller is typing, or stopped. Repeat it while the user types; it ends after `ttl.typing`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetTyping {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// True if the user is typing, false if the user stopped. Default: true.
    #[serde(default = "default_true")]
    #[schema(default = true)]
    pub typing: bool,
    /// Display name, if a service acts for the user; otherwise the name in the token is used.
    #[serde(default)]
    pub username: Option<String>,
}

/// Reply to a typing report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct TypingReply {
    /// True if the user is typing, false if the user stopped.
    pub typing: bool,
}

impl Operation for SetTyping {
    const INFO: OperationInfo = OperationInfo {
        name: "typing.set",
        summary: "Reports that a user is typing, or stopped",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::ReadOnlySession,
            ErrorCode::NotAMember,
        ],
    };
    type Reply = TypingReply;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<TypingReply> {
        let user = caller.require_user()?;
        caller.require_write_access()?;
        let conversation = chat
            .conversations()
            .require_member(caller, &self.conversation_id)
            .await?;
        if self.typing {
            let name = self.display_name(caller);
            if name.is_some_and(|name| name.len() > MAX_NAME_BYTES) {
                let text = format!("`username` is longer than {MAX_NAME_BYTES} bytes");
                return Err(Error::InvalidRequest(text));
            }
            chat.typing().start(&conversation, user, name).await?;
        } else {
            chat.typing().stop(&conversation, user).await?;
        }
        Ok(TypingReply {
            typing: self.typing,
        })
    }
}

impl SetTyping {
    /// Display name of the user: from the request if the caller is a service, otherwise from the token.
    fn display_name<'a>(&'a self, caller: &'a Caller) -> Option<&'a str> {
        match caller.role {
            Role::Service => self.username.as_deref(),
            Role::User | Role::Admin => caller.name.as_deref(),
        }
    }
}

fn default_true() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_without_a_name_cannot_take_one() {
        let request = SetTyping {
            conversation_id: "c1".into(),
            typing: true,
            username: Some("Somebody Else".into()),
        };
        let mut caller = Caller::unauthenticated(None);
        assert_eq!(request.display_name(&caller), None);
        caller.role = Role::Service;
        assert_eq!(request.display_name(&caller), Some("Somebody Else"));
    }
}
