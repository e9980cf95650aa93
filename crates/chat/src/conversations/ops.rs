//! What is said about conversations: requests as they are carried out, and answers as clients get them.

use serde::Serialize;
use utoipa::ToSchema;

use super::member_rows::MemberRow;
use super::rows::ConversationRow;
use super::words::{ConversationKind, History, MemberRole, Priority};
use crate::context::Timestamp;
use crate::ids::{ConversationId, UserId};
use crate::messages::Message;
use crate::presence::UserStatus;

/// A conversation to be created; it has been checked.
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
    /// The owner first.
    pub(super) members: Vec<(UserId, MemberRole)>,
}

/// What is to be changed of a conversation.
#[derive(Debug, Clone, Default)]
pub struct ConversationPatch {
    /// What it is called; empty for nothing.
    pub title: Option<String>,
    /// Whether anybody may join.
    pub open: Option<bool>,
    /// What new members see.
    pub history: Option<History>,
    /// How much it presses.
    pub priority: Option<Priority>,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Its id.
    pub id: ConversationId,
    /// What it is.
    pub kind: ConversationKind,
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether anybody may join.
    pub open: bool,
    /// What members see of the time before they joined.
    pub history: History,
    /// How much a support conversation presses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Who created it; absent if a service did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<UserId>,
    /// When, in ISO 8601.
    pub created_at: String,
    /// The number of its newest message; 0 if there is none.
    pub last_seq: u64,
    /// When that was sent, or the conversation created, in ISO 8601.
    pub last_at: String,
    /// Rises with every message, edit and delete.
    pub rev: u64,
    /// How many members it has.
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

/// A conversation of somebody, as their list shows it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationSummary {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: Conversation,
    /// What the user may do in it.
    pub role: MemberRole,
    /// Its newest message, if the user may see it; one that was deleted is shown as deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<Message>,
    /// Messages the user has not read.
    pub unread: u64,
    /// Those among them that mention the user.
    pub mentions: u64,
    /// Until when the user has muted it, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<String>,
    /// Of a direct conversation: how the other one is seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<UserStatus>,
}

/// A member of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Who.
    pub user_id: UserId,
    /// What they may do.
    pub role: MemberRole,
    /// Since when, in ISO 8601.
    pub joined_at: String,
    /// Until when they have muted the conversation, in ISO 8601; for themselves and services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<String>,
}

impl Member {
    /// The member as others see them.
    pub(super) fn for_others(member: MemberRow) -> Self {
        Self {
            user_id: member.user_id,
            role: member.role,
            joined_at: Timestamp(member.joined_at).to_iso8601(),
            muted_until: None,
        }
    }

    /// The member as they see themself.
    pub(super) fn for_self(member: MemberRow, now: Timestamp) -> Self {
        let muted_until = format_active_mute(member.muted_until, now);
        Self {
            muted_until,
            ..Self::for_others(member)
        }
    }
}

/// Until when, if that is still to come.
pub(super) fn format_active_mute(until: u64, now: Timestamp) -> Option<String> {
    (until > now.as_millis()).then(|| Timestamp(until).to_iso8601())
}
