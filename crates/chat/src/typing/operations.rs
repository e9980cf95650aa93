//! What callers can ask of typing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Typer;
use crate::access::{Caller, Role};
use crate::chat::Chat;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::operation::{Info, Operation};

/// Most bytes of a name, as in a token.
const MOST_NAME: usize = 256;

/// Who types in a conversation. For its members.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListTyping {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

/// Who types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Typers {
    /// The users, by id.
    pub typing: Vec<Typer>,
}

impl Operation for ListTyping {
    const INFO: Info = Info {
        name: "typing.list",
        summary: "Who types in a conversation",
        codes: &[Code::InvalidId, Code::UserRequired, Code::NotAMember],
    };
    type Reply = Typers;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Typers> {
        let conversation = caller
            .member_of(&self.conversation_id, chat.members())
            .await?;
        let typing = chat.typing().typers(&conversation).await?;
        Ok(Typers { typing })
    }
}

/// The caller types, or no longer. Repeated while they do: it ends by itself after a few seconds.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetTyping {
    /// Where.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Whether; true if it is not said.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub typing: bool,
    /// What the user is called, where a service acts for them; else the token says it.
    #[serde(default)]
    pub username: Option<String>,
}

/// What was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct TypingSet {
    /// Whether the user types.
    pub typing: bool,
}

impl Operation for SetTyping {
    const INFO: Info = Info {
        name: "typing.set",
        summary: "Says that a user types in a conversation, or no longer",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::ReadOnlySession,
            Code::NotAMember,
        ],
    };
    type Reply = TypingSet;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<TypingSet> {
        let user = caller.user()?;
        caller.may_write()?;
        let conversation = caller
            .member_of(&self.conversation_id, chat.members())
            .await?;
        if self.typing {
            let name = self.name(caller);
            if name.is_some_and(|name| name.len() > MOST_NAME) {
                let text = format!("`username` is longer than {MOST_NAME} bytes");
                return Err(Error::InvalidRequest(text));
            }
            chat.typing().start(&conversation, user, name).await?;
        } else {
            chat.typing().stop(&conversation, user).await?;
        }
        Ok(TypingSet {
            typing: self.typing,
        })
    }
}

impl SetTyping {
    /// What the user is called: a person as their token says, and as a service says whom it acts for.
    fn name<'a>(&'a self, caller: &'a Caller) -> Option<&'a str> {
        match caller.role {
            Role::Service => self.username.as_deref(),
            Role::User | Role::Admin => caller.name.as_deref(),
        }
    }
}

fn yes() -> bool {
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
        let mut caller = Caller {
            user: None,
            name: None,
            role: Role::User,
            anonymous: false,
            issued_at: None,
            expires_at: 0,
            address: None,
        };
        assert_eq!(request.name(&caller), None);
        caller.role = Role::Service;
        assert_eq!(request.name(&caller), Some("Somebody Else"));
    }
}
