//! Operations on members: list, get, put, remove, is_member.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::super::model::{Member, MemberRole};
use super::super::permissions::{conversation_not_found, is_same_user};
use super::super::{Conversations, MemberRow};
use super::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::api::error_code::ErrorCode;
use crate::api::operation::{Operation, OperationInfo};
use crate::api::pagination;
use crate::chat::Chat;
use crate::clock::Timestamp;
use crate::ids::{ConversationId, UserId};

/// Error codes of operations that change members.
pub(super) const MEMBER_CHANGE_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidId,
    ErrorCode::UserRequired,
    ErrorCode::ReadOnlySession,
    ErrorCode::NotAMember,
    ErrorCode::NotFound,
    ErrorCode::Forbidden,
];

/// Error codes of operations that read members.
const MEMBER_READ_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidId,
    ErrorCode::NotAMember,
    ErrorCode::NotFound,
];

/// Lists the members of a conversation, ordered by user id. For its members, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListMembers {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// `nextCursor` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Maximum number of members in the page. Default: 50.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    pub limit: Option<u64>,
}

/// A page of members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberList {
    /// Members of the page.
    pub members: Vec<Member>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl Operation for ListMembers {
    const INFO: OperationInfo = OperationInfo {
        name: "members.list",
        summary: "Lists the members of a conversation",
        codes: MEMBER_READ_CODES,
    };
    type Reply = MemberList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<MemberList> {
        let conversations = chat.conversations();
        let id = conversations.require_readable(caller, &self.conversation_id);
        let id = id.await?;
        let limit = pagination::page_size(self.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
        let members = conversations.list_members(&id, self.cursor.as_deref(), limit);
        let (members, next_cursor) = members.await?;
        if members.is_empty() && conversations.find_conversation(&id).await?.is_none() {
            return Err(conversation_not_found(caller, &id));
        }
        Ok(MemberList {
            members: members.into_iter().map(Member::for_others).collect(),
            next_cursor,
        })
    }
}

/// Returns a member of a conversation. For its members, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetMember {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Id of the user.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

impl Operation for GetMember {
    const INFO: OperationInfo = OperationInfo {
        name: "members.get",
        summary: "Returns a member of a conversation",
        codes: MEMBER_READ_CODES,
    };
    type Reply = Member;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Member> {
        let user = UserId::new(&self.user_id)?;
        let conversations = chat.conversations();
        let id = conversations.require_readable(caller, &self.conversation_id);
        let id = id.await?;
        let member = conversations.find_member(&id, &user).await?;
        let member =
            member.ok_or_else(|| Error::NotFound(format!("{user} is not a member of {id}")))?;
        Ok(conversations.member_for_caller(caller, member))
    }
}

/// Adds a member, changes a member's role, or mutes the conversation for a member. Owners and admins of the
/// conversation can add and change members, but only owners can add and change owners. Admins and services have the
/// rights of owners. Members mute the conversation for themselves; services can mute it for any member.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PutMember {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Id of the user.
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// Role of the member. Default: `member` for a new member, unchanged for an existing one.
    #[serde(default)]
    pub role: Option<MemberRole>,
    /// End of the mute, ISO 8601; null ends the mute. Default: unchanged.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub muted_until: Option<Option<String>>,
}

impl Operation for PutMember {
    const INFO: OperationInfo = OperationInfo {
        name: "members.put",
        summary: "Adds a member, changes a role, or mutes the conversation for a member",
        codes: MEMBER_CHANGE_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = Member;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Member> {
        caller.require_write_access()?;
        let user = UserId::new(&self.user_id)?;
        let id = ConversationId::new(&self.conversation_id)?;
        let muted = self
            .muted_until
            .map(|until| parse_muted_until(until.as_deref()));
        let muted = muted.transpose()?;
        let conversations = chat.conversations();
        let member = conversations.put_member(caller, &id, &user, self.role, muted);
        Ok(conversations.member_for_caller(caller, member.await?))
    }
}

/// Removes a member. Members can remove themselves. Owners and admins of the conversation can remove other members, but
/// only owners can remove owners. Admins and services have the rights of owners. Repeating the call has no effect.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoveMember {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Id of the user.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

/// A user who is not a member any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedMember {
    /// Id of the conversation.
    pub conversation_id: ConversationId,
    /// Id of the user.
    pub user_id: UserId,
}

impl Operation for RemoveMember {
    const INFO: OperationInfo = OperationInfo {
        name: "members.remove",
        summary: "Removes a member from a conversation",
        codes: MEMBER_CHANGE_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = RemovedMember;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<RemovedMember> {
        caller.require_write_access()?;
        let user_id = UserId::new(&self.user_id)?;
        let conversation_id = ConversationId::new(&self.conversation_id)?;
        let conversations = chat.conversations();
        conversations
            .remove_member(caller, &conversation_id, &user_id)
            .await?;
        Ok(RemovedMember {
            conversation_id,
            user_id,
        })
    }
}

/// Returns whether a user is a member of a conversation. For the user, members of the conversation, admins and
/// services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IsMember {
    /// Id of the conversation.
    #[schema(value_type = ConversationId)]
    pub conversation_id: String,
    /// Id of the user. Default: the caller.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
}

/// Whether a user is a member of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IsMemberReply {
    /// True if the user is a member.
    pub is_member: bool,
}

impl Operation for IsMember {
    const INFO: OperationInfo = OperationInfo {
        name: "members.is_member",
        summary: "Returns whether a user is a member of a conversation, from the cache",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::NotAMember,
        ],
    };
    type Reply = IsMemberReply;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<IsMemberReply> {
        let user = match self.user_id.as_str() {
            "" => caller.require_user()?.clone(),
            user => UserId::new(user)?,
        };
        let conversations = chat.conversations();
        let id = match is_same_user(caller, &user) {
            true => ConversationId::new(&self.conversation_id)?,
            false => {
                let id = conversations.require_readable(caller, &self.conversation_id);
                id.await?
            }
        };
        let is_member = conversations.is_member(&id, &user).await?;
        Ok(IsMemberReply { is_member })
    }
}

impl Conversations {
    /// Returns the member with the fields that this caller may see.
    fn member_for_caller(&self, caller: &Caller, member: MemberRow) -> Member {
        if caller.role == Role::Service || is_same_user(caller, &member.user_id) {
            Member::for_self(member, self.ctx.now())
        } else {
            Member::for_others(member)
        }
    }
}

/// Parses `mutedUntil` into ms; 0 for null.
fn parse_muted_until(text: Option<&str>) -> Result<u64> {
    let Some(text) = text else {
        return Ok(0);
    };
    let moment = Timestamp::parse_iso8601(text);
    moment.map(Timestamp::as_millis).ok_or_else(|| {
        Error::InvalidRequest(format!(
            "`mutedUntil` is {text:?}; use an ISO 8601 time like 2025-01-01T00:00:00.000Z"
        ))
    })
}

/// Deserializes a field so that null (`Some(None)`) differs from an absent field (`None`).
fn deserialize_nullable<'de, D, T>(
    deserializer: D,
) -> std::result::Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
