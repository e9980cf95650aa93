//! Types of conversations and members: requests as they are carried out, and replies as clients get them.

use serde::Serialize;
use utoipa::ToSchema;

use super::enums::{ConversationKind, History, MemberRole, Priority};
use super::member_rows::MemberRow;
use super::rows::ConversationRow;
use crate::context::Timestamp;
use crate::ids::{ConversationId, UserId};
use crate::messages::Message;
use crate::presence::UserStatus;

/// Validated data of a conversation to be created.
#[derive(Debug, Clone)]
pub(super) struct ConversationDraft {
    pub(super) id: Option<ConversationId>,
    pub(super) kind: ConversationKind,
    pub(super) title: Option<String>,
    pub(super) direct_pair: Option<String>,
    pub(super) open: bool,
    pub(super) history: History,
    pub(super) priority: Option<Priority>,
    pub(super) creator: Option<UserId>,
    pub(super) idempotency_key: Option<String>,
    /// The owner is the first member.
    pub(super) members: Vec<(UserId, MemberRole)>,
}

/// Fields of a conversation to change; `None` leaves a field as it is.
#[derive(Debug, Clone, Default)]
pub struct ConversationPatch {
    /// New title; empty to remove the title.
    pub title: Option<String>,
    /// Whether every user may join.
    pub open: Option<bool>,
    /// Whether members see messages that were sent before they joined.
    pub history: Option<History>,
    /// Priority of a support conversation.
    pub priority: Option<Priority>,
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
    pub history: History,
    /// Priority of a support conversation; absent for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
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
}

impl From<ConversationRow> for Conversation {
    fn from(row: ConversationRow) -> Self {
        Self {
            priority: row.priority(),
            created_by: row.creator(),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<UserStatus>,
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
        let muted_until = format_active_mute(member.muted_until, now);
        Self {
            muted_until,
            ..Self::for_others(member)
        }
    }
}

/// Formats the end of a mute if it is in the future.
pub(super) fn format_active_mute(until: u64, now: Timestamp) -> Option<String> {
    (until > now.as_millis()).then(|| Timestamp(until).to_iso8601())
}
