//! Members: join, leave, list, get, put, remove, and whether somebody is one.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::super::ops::{Conversation, ConversationMember};
use super::super::{MemberRole, page, rights};
use super::readable;
use crate::access::{Caller, Role};
use crate::chat::Chat;
use crate::code::Code;
use crate::context::Moment;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::operation::{Info, Operation};

/// What calls that change members refuse with.
const CHANGING: &[Code] = &[
    Code::InvalidId,
    Code::UserRequired,
    Code::ReadOnlySession,
    Code::NotAMember,
    Code::NotFound,
    Code::Forbidden,
];

/// What calls that look at members refuse with.
const LOOKING: &[Code] = &[Code::InvalidId, Code::NotAMember, Code::NotFound];

/// The caller joins: a group that is open, or as an admin a support conversation. Joining twice is harmless.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JoinConversation {
    /// Which.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

impl Operation for JoinConversation {
    const INFO: Info = Info {
        name: "conversations.join",
        summary: "Joins an open group, or as an agent a support conversation",
        codes: CHANGING,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = Conversation;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Conversation> {
        caller.may_write()?;
        let id = ConversationId::new(&self.conversation_id)?;
        let row = chat.conversations().join(caller, &id).await?;
        Ok(row.into())
    }
}

/// The caller leaves. The last owner hands that on: to the longest-standing admin, else member. Leaving twice is harmless.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaveConversation {
    /// Which.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
}

/// Who is not a member any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// Of which conversation.
    pub conversation_id: ConversationId,
    /// Who.
    pub user_id: UserId,
}

impl Operation for LeaveConversation {
    const INFO: Info = Info {
        name: "conversations.leave",
        summary: "Leaves a conversation",
        codes: CHANGING,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = Left;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Left> {
        let user_id = caller.user()?.clone();
        let conversation_id = ConversationId::new(&self.conversation_id)?;
        let conversations = chat.conversations();
        conversations.leave(caller, &conversation_id).await?;
        Ok(Left {
            conversation_id,
            user_id,
        })
    }
}

/// The members of a conversation, by id. For its members, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMembers {
    /// Which.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Where the page before ended: its `nextCursor`.
    #[serde(default)]
    pub cursor: Option<String>,
    /// How many; 50 if it is not said.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<u64>,
}

/// A page of members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberList {
    /// The members.
    pub members: Vec<ConversationMember>,
    /// What to ask for the next page with; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Operation for ListMembers {
    const INFO: Info = Info {
        name: "members.list",
        summary: "The members of a conversation",
        codes: LOOKING,
    };
    type Reply = MemberList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<MemberList> {
        let id = readable(chat, caller, &self.conversation_id).await?;
        let limit = page::limit(self.limit)?;
        let members = chat
            .conversations()
            .members(&id, self.cursor.as_deref(), limit);
        let (members, next_cursor) = members.await?;
        if members.is_empty() && chat.conversations().head(&id).await?.is_none() {
            return Err(rights::missing(caller, &id));
        }
        Ok(MemberList {
            members: members
                .into_iter()
                .map(ConversationMember::public)
                .collect(),
            next_cursor,
        })
    }
}

/// A member of a conversation. For its members, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetMember {
    /// Which conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Who.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

impl Operation for GetMember {
    const INFO: Info = Info {
        name: "members.get",
        summary: "A member of a conversation",
        codes: LOOKING,
    };
    type Reply = ConversationMember;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<ConversationMember> {
        let user = UserId::new(&self.user_id)?;
        let id = readable(chat, caller, &self.conversation_id).await?;
        let member = chat.conversations().member(&id, &user).await?;
        let member =
            member.ok_or_else(|| Error::NotFound(format!("{user} is not a member of {id}")))?;
        Ok(chat.conversations().shown(caller, member))
    }
}

/// Adds a member, gives one another role, or mutes the conversation for one. Owners and admins of the conversation add and
/// change members, owners alone make and change owners; each mutes for themself. Admins and services may all of it, but for
/// muting, which is for services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PutMember {
    /// Which conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Who.
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// What they may do; a new member is a `member` if it is not said.
    #[serde(default)]
    pub role: Option<MemberRole>,
    /// Until when the conversation is muted, in ISO 8601; null for not any more.
    #[serde(default, deserialize_with = "said")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub muted_until: Option<Option<String>>,
}

impl Operation for PutMember {
    const INFO: Info = Info {
        name: "members.put",
        summary: "Adds a member, changes a role, or mutes the conversation for a member",
        codes: CHANGING,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = ConversationMember;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<ConversationMember> {
        caller.may_write()?;
        let user = UserId::new(&self.user_id)?;
        let id = ConversationId::new(&self.conversation_id)?;
        let muted = self.muted_until.map(|until| moment(until.as_deref()));
        let muted = muted.transpose()?;
        let conversations = chat.conversations();
        let member = conversations.put(caller, &id, &user, self.role, muted);
        Ok(conversations.shown(caller, member.await?))
    }
}

/// Removes a member: themself, or for owners and admins of the conversation others, but owners by owners alone. Removing
/// twice is harmless.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoveMember {
    /// Of which conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Who.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

impl Operation for RemoveMember {
    const INFO: Info = Info {
        name: "members.remove",
        summary: "Removes a member from a conversation",
        codes: CHANGING,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = Left;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Left> {
        caller.may_write()?;
        let user_id = UserId::new(&self.user_id)?;
        let conversation_id = ConversationId::new(&self.conversation_id)?;
        let conversations = chat.conversations();
        conversations
            .remove(caller, &conversation_id, &user_id)
            .await?;
        Ok(Left {
            conversation_id,
            user_id,
        })
    }
}

/// Whether a user is a member of a conversation: for the user, admins and services, and for members of it.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IsMember {
    /// Which conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Who; the caller if it is empty.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
}

/// Whether somebody is a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    /// Whether.
    pub is_member: bool,
}

impl Operation for IsMember {
    const INFO: Info = Info {
        name: "members.is_member",
        summary: "Whether a user is a member of a conversation, from the cache",
        codes: &[Code::InvalidId, Code::UserRequired, Code::NotAMember],
    };
    type Reply = Membership;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Membership> {
        let user = match self.user_id.as_str() {
            "" => caller.user()?.clone(),
            user => UserId::new(user)?,
        };
        let id = match caller.user.as_ref() == Some(&user) {
            true => ConversationId::new(&self.conversation_id)?,
            false => readable(chat, caller, &self.conversation_id).await?,
        };
        let is_member = chat.members().is_member(&id, &user).await?;
        Ok(Membership { is_member })
    }
}

impl super::super::Conversations {
    /// A member as the caller may see them.
    fn shown(&self, caller: &Caller, member: super::super::Member) -> ConversationMember {
        if caller.role == Role::Service || rights::is(caller, &member.user_id) {
            ConversationMember::private(member, self.ctx.now())
        } else {
            ConversationMember::public(member)
        }
    }
}

/// The moment in ms; 0 for none.
fn moment(text: Option<&str>) -> Result<u64> {
    let Some(text) = text else {
        return Ok(0);
    };
    let moment = Moment::parse(text);
    moment.map(Moment::ms).ok_or_else(|| {
        Error::InvalidRequest(format!(
            "`mutedUntil` is {text:?}, write a time like 2025-01-01T00:00:00.000Z"
        ))
    })
}

/// Tells a null from nothing said.
fn said<'de, D, T>(deserializer: D) -> std::result::Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
