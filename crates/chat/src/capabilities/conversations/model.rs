//! Types of conversations and members: stored words, requests as they are carried out, replies, and frames.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::member_rows::MemberRow;
use super::rows::ConversationRow;
use crate::clock::Timestamp;
use crate::ids::{ConversationId, UserId};
use crate::keys::named_enum;
use crate::messages::Message;
use crate::presence::UserStatus;

/// Maximum number of members in a create request.
pub(super) const MAX_INITIAL_MEMBERS: usize = 1_000;
/// Maximum number of members of a conversation whose members are listed.
pub(crate) const MAX_LISTED_PARTICIPANTS: usize = 1_000;

named_enum! {
    /// Kind of a conversation.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ConversationKind {
        /// Conversation of two users. It exists once per pair, and its members never change.
        Direct = "direct",
        /// Conversation of any number of users.
        Group = "group",
        /// Conversation of a user with the agents who answer.
        Support = "support",
    }
}

named_enum! {
    /// Whether members see messages that were sent before they joined.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum HistoryVisibility {
        /// Members see all messages.
        All = "all",
        /// Members only see messages that were sent after they joined.
        SinceJoin = "since_join",
    }
}

named_enum! {
    /// Priority of a support conversation.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum SupportPriority {
        /// Highest priority.
        Urgent = "urgent",
        /// Above `normal`.
        High = "high",
        /// Usual priority.
        Normal = "normal",
        /// Lowest priority.
        Low = "low",
    }
}

named_enum! {
    /// Role of a member.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum MemberRole {
        /// May do everything, including to delete the conversation and to change owners.
        Owner = "owner",
        /// May change the conversation and its members, but not its owners.
        Admin = "admin",
        /// May read and write messages.
        Member = "member",
    }
}

/// Validated data of a conversation to be created.
pub(super) struct ConversationDraft {
    pub(super) id: ConversationId,
    pub(super) kind: ConversationKind,
    pub(super) fields: ConversationPatch,
    /// The two members of a direct conversation, see [`ConversationRow::pair`].
    pub(super) direct_pair: Option<String>,
    pub(super) creator: Option<UserId>,
    pub(super) idempotency_key: Option<String>,
    /// The owner is the first member.
    pub(super) members: Vec<(UserId, MemberRole)>,
}

/// Fields of a conversation to set; `None` leaves a field as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConversationPatch {
    /// New title; empty to remove the title.
    pub(crate) title: Option<String>,
    pub(crate) open: Option<bool>,
    pub(crate) history: Option<HistoryVisibility>,
    pub(crate) priority: Option<SupportPriority>,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Id of the conversation.
    pub id: ConversationId,
    /// Kind of the conversation.
    pub kind: ConversationKind,
    /// Title of the conversation; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// True if every user may join.
    pub open: bool,
    /// Whether members see messages that were sent before they joined.
    pub history: HistoryVisibility,
    /// Priority of a support conversation; absent for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<SupportPriority>,
    /// Id of the user who created the conversation; absent if a service created it without acting for a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<UserId>,
    /// Time of the creation, ISO 8601.
    pub created_at: String,
    /// `seq` of the newest message; 0 if there is none.
    pub last_seq: u64,
    /// Time of the newest message, or of the creation if there is none, ISO 8601.
    pub last_at: String,
    /// Revision; increases with every message, edit and delete.
    pub rev: u64,
    /// Number of members.
    pub member_count: u64,
    /// Version of the members; increases with every change of members. Load the members again if it differs from the
    /// version that you know.
    pub members_version: u64,
    /// Version of the conversation; increases with every change of `title`, `open`, `history` or `priority`. Of two
    /// states of a conversation, the one with the higher `version` is newer.
    pub version: u64,
}

impl From<ConversationRow> for Conversation {
    fn from(row: ConversationRow) -> Self {
        Self {
            priority: row.priority.as_deref().and_then(SupportPriority::parse),
            created_by: row.created_by.and_then(|id| UserId::new(id).ok()),
            title: row.title.filter(|it| !it.is_empty()),
            id: row.id,
            kind: row.kind,
            open: row.open != 0,
            history: row.history,
            created_at: Timestamp(row.created_at).to_iso8601(),
            last_seq: row.last_seq,
            last_at: Timestamp(row.last_at).to_iso8601(),
            rev: row.rev,
            member_count: row.member_count,
            members_version: row.members_version,
            version: row.version,
        }
    }
}

/// A conversation as the list of its member shows it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSummary {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// Role of the user in the conversation.
    pub role: MemberRole,
    /// Newest message; absent if the user may not see it or there is none. A deleted message is shown as deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<Message>,
    /// Unread messages of the user.
    pub unread: u64,
    /// Unread messages that mention the user.
    pub mentions: u64,
    /// End of the user's mute, ISO 8601; absent if the conversation is not muted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<String>,
    /// Presence of the other user of a direct conversation; absent for other kinds.
    #[serde(rename = "other", skip_serializing_if = "Option::is_none")]
    pub other_user: Option<UserStatus>,
}

/// A member of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Id of the user.
    pub user_id: UserId,
    /// Role of the member.
    pub role: MemberRole,
    /// Time of the join, ISO 8601.
    pub joined_at: String,
    /// End of the member's mute, ISO 8601; absent if not muted. Only the member and services see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<String>,
}

impl Member {
    /// The member without private fields.
    pub(super) fn for_others(member: MemberRow) -> Self {
        Self {
            user_id: member.user_id,
            role: member.role,
            joined_at: Timestamp(member.joined_at).to_iso8601(),
            muted_until: None,
        }
    }

    /// The member with private fields.
    pub(super) fn for_self(member: MemberRow, now: Timestamp) -> Self {
        Self {
            muted_until: format_active_mute(member.muted_until, now),
            ..Self::for_others(member)
        }
    }
}

/// Formats the end of a mute if it is in the future.
pub(super) fn format_active_mute(until: u64, now: Timestamp) -> Option<String> {
    (until > now.as_millis()).then(|| Timestamp(until).to_iso8601())
}

/// Effect of a change on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MemberTransition {
    /// The user was not a member and is one now.
    Joined(MemberRole),
    /// The user is a member, perhaps with another role than before.
    Present(MemberRole),
    /// The user is not a member any more.
    Left,
}

/// A change of the members of one conversation. Entries of the outbox contain it as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MembershipChange {
    pub(super) conversation: ConversationId,
    pub(super) members_version: u64,
    pub(super) last_seq: u64,
    pub(super) deleted: bool,
    /// Number of members after the change.
    pub(super) member_count: u64,
    pub(super) users: Vec<(UserId, MemberTransition)>,
}

/// Frame on the channel of large conversations.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LargeMembersChangedFrame {
    pub(crate) conversation_id: ConversationId,
    pub(crate) members_version: u64,
    /// Users whose membership may have changed; empty if there are too many to name.
    pub(crate) user_ids: Vec<UserId>,
}

/// Frame on the channel of the conversation.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MembersChangedFrame {
    pub(crate) members_version: u64,
    pub(crate) deleted: bool,
    /// The members that the change concerns; of a large change the first ones.
    pub(crate) members: Vec<MemberChange>,
}

/// Change of one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberChange {
    /// Id of the user.
    pub user_id: UserId,
    /// Role of the member; `None` if the user left.
    pub role: Option<MemberRole>,
    /// True if the user was not a member before.
    #[serde(default)]
    pub joined: bool,
}

impl MemberChange {
    /// The user left.
    pub(crate) fn left(user_id: UserId) -> Self {
        Self {
            user_id,
            role: None,
            joined: false,
        }
    }
}

/// Frame on the channel of a user.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MembershipChangedFrame {
    pub(crate) conversation_id: ConversationId,
    pub(crate) members_version: u64,
    /// `None` if the user left.
    pub(crate) role: Option<MemberRole>,
    /// True if the user was not a member before.
    #[serde(default)]
    pub(crate) joined: bool,
}
