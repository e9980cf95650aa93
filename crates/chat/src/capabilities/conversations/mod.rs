//! Conversations and their members: creating, listing, changing and deleting them, and the permissions for that.
//!
//! ```text
//!  change (create, update, change_members)          read (is_member, participants_at)
//!    │ rows and outbox entry: one transaction         │ store: cached answer of this epoch
//!    │                                                │ rows: if the store has none; cached if no member
//!    ▼                                                ▼       changed since the read
//!  invalidate caches ─▶ unread counters ─▶ frames to nodes and users
//! ```
//!
//! Invariants:
//! 1. The database decides. A change is committed first; cached memberships and participants are invalidated before
//!    the change is acknowledged. Rows that were read before a change are not cached after it.
//! 2. A direct conversation exists once per pair of users, and its two members never change: joining, leaving, adding
//!    and removing are rejected.
//! 3. A group or support conversation with members has an owner: when the last owner leaves, another member becomes
//!    owner.
//! 4. The id of a deleted conversation is never used again. A deleted conversation has neither a row nor members from
//!    the commit of its deletion on; its messages, which no statement returns any more, are removed in the background.
//! 5. Every call can be repeated. A call that changes nothing takes no lock, raises no version and publishes nothing: a
//!    committed change that is not published yet is in the outbox.

pub mod keys;

mod change_members;
mod create;
mod invalidate;
mod list;
mod list_rows;
mod member_rows;
mod members;
mod membership_cache;
mod model;
mod operation_group;
mod operations;
mod participants;
mod permissions;
mod publish;
mod publish_large;
mod publish_update;
mod remove_rows;
mod rows;
mod update;
mod validate;

use std::sync::Arc;

use self::membership_cache::MembershipLoads;
use self::participants::ParticipantCache;
use crate::api::error::{Error, Result};
use crate::context::ChatContext;
use crate::database::{self, Database};
use crate::ids::ConversationId;
use crate::outbox::OutboxWorker;
use crate::presence::Presence;
use crate::unread::Unread;

pub(crate) use self::member_rows::MemberRow;
pub(crate) use self::model::{
    ConversationPatch, LargeMembersChangedFrame, MAX_LISTED_PARTICIPANTS, MembersChangedFrame,
    MembershipChangedFrame,
};
pub(crate) use self::publish::outbox_subject;
pub(crate) use self::rows::direct_pair;
pub(crate) use self::validate::{MAX_IDEMPOTENCY_KEY_BYTES, validate_patch};

pub use self::model::{
    Conversation, ConversationKind, ConversationSummary, HistoryVisibility, Member, MemberChange,
    MemberRole, SupportPriority,
};
pub use self::operation_group::OPERATIONS;
pub use self::operations::{
    ConversationList, CreateConversation, CreatedConversation, DeleteConversation,
    DeletedConversation, GetConversation, GetMember, IsMember, IsMemberReply, JoinConversation,
    LeaveConversation, ListConversations, ListMembers, MemberList, PutMember, RemoveMember,
    RemovedMember, UpdateConversation,
};
pub use self::rows::ConversationRow;

/// Maximum number of attempts of a transaction that conflicts with another one.
const MAX_CONFLICT_ATTEMPTS: usize = 5;

/// Service for conversations and their members on one node.
pub struct Conversations {
    ctx: ChatContext,
    database: Database,
    unread: Arc<Unread>,
    presence: Arc<Presence>,
    membership_loads: MembershipLoads,
    participant_cache: ParticipantCache,
}

/// Repeats a transaction after a conflict with another one.
macro_rules! retry_on_conflict {
    ($try:expr) => {{
        let mut attempts = 1;
        loop {
            match $try.await {
                Err(error)
                    if attempts < $crate::conversations::MAX_CONFLICT_ATTEMPTS
                        && $crate::conversations::is_conflict(&error) =>
                {
                    attempts += 1;
                }
                done => break done,
            }
        }
    }};
}
use retry_on_conflict;

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::DatabaseUnavailable(error) if database::classify_error(error) == database::DatabaseErrorKind::Conflict)
}

impl Conversations {
    /// Creates the service of a node.
    pub fn new(
        ctx: ChatContext,
        database: Database,
        unread: Arc<Unread>,
        presence: Arc<Presence>,
    ) -> Self {
        Self {
            ctx,
            database,
            unread,
            presence,
            membership_loads: MembershipLoads::default(),
            participant_cache: ParticipantCache::default(),
        }
    }

    /// Reads a conversation; `None` if it does not exist.
    pub async fn find_conversation(&self, id: &ConversationId) -> Result<Option<ConversationRow>> {
        rows::find(&self.database, id).await
    }

    /// Number of row reads because the store had no answer, for tests of the caches: memberships, and participants.
    pub fn cache_misses(&self) -> (u64, u64) {
        (
            self.membership_loads.row_reads(),
            self.participant_cache.row_reads(),
        )
    }
}

/// Registers the kinds of outbox entries of this capability.
pub(crate) fn register_outbox_kinds(conversations: &Arc<Conversations>, outbox: &mut OutboxWorker) {
    outbox.register::<self::model::MembershipChange>(conversations);
    outbox.register::<self::publish_update::UpdatedConversation>(conversations);
}

impl std::fmt::Debug for Conversations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Conversations")
    }
}
