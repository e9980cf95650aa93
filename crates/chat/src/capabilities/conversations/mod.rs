//! Conversations and their members: create, list, change and delete, and who may do that.
//!
//! Invariants:
//! 1. The database decides. Cached memberships and participants are invalidated before a change is acknowledged.
//! 2. A direct conversation exists once per pair of users, and its two members never change: joining, leaving, adding
//!    and removing are rejected.
//! 3. A group or support conversation with members has an owner: when the last owner leaves, another member becomes
//!    owner.
//! 4. The id of a deleted conversation is never used again.
//! 5. Every call can be repeated: a change that is made already is not made again, and the caches are invalidated
//!    again.

mod change_members;
mod create;
mod enums;
mod list;
mod member_rows;
mod model;
mod operations;
mod outbox;
mod pagination;
mod permissions;
mod rows;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use self::outbox::MembershipOutbox;
use crate::api::error::{Error, Result};
use crate::context::ChatContext;
use crate::database::{self, Database};
use crate::ids::{ConversationId, UserId};
use crate::membership::{self, Members, MembershipCache, ParticipantCache};
use crate::presence::Presence;
use crate::unread::Unread;

pub(crate) use self::outbox::{MembersChangedFrame, MembershipChangedFrame};

pub use self::create::{MAX_INITIAL_MEMBERS, MAX_TITLE_BYTES};
pub use self::enums::{ConversationKind, History, MemberRole, Priority, UnknownEnumText};
pub use self::member_rows::MemberRow;
pub use self::model::{Conversation, ConversationPatch, ConversationSummary, Member};
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
    membership_cache: MembershipCache,
    participant_cache: ParticipantCache,
    outbox: MembershipOutbox,
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
            membership_cache: MembershipCache::new(ctx.clone(), database.clone()),
            participant_cache: ParticipantCache::new(ctx.clone(), database.clone()),
            outbox: MembershipOutbox::default(),
            ctx,
            database,
            unread,
            presence,
        }
    }

    /// Reads a conversation; `None` if it does not exist.
    pub async fn head(&self, conversation: &ConversationId) -> Result<Option<ConversationRow>> {
        rows::find(&self.database, conversation).await
    }

    /// Reads a member from the rows; `None` if the user is not a member.
    pub async fn find_member(
        &self,
        conversation: &ConversationId,
        user: &UserId,
    ) -> Result<Option<MemberRow>> {
        member_rows::find(&self.database, conversation, user).await
    }

    /// Returns the members of a conversation with at most 1,000 members, at this `members_version` or a later one.
    pub async fn participants_at(
        &self,
        conversation: &ConversationId,
        members_version: u64,
    ) -> Result<Arc<[UserId]>> {
        self.participant_cache
            .at(conversation, members_version)
            .await
    }

    /// Refills the participant set in the store, which is missing or has another version than this one.
    pub(crate) async fn refill_participants(
        &self,
        conversation: &ConversationId,
        members_version: u64,
    ) -> Result<()> {
        let participants = &self.participant_cache;
        participants
            .refill_store(conversation, members_version)
            .await
    }

    /// Returns which of these users are not members, from the rows.
    pub(crate) async fn filter_non_members(
        &self,
        conversation: &ConversationId,
        users: &[UserId],
    ) -> Result<Vec<UserId>> {
        membership::filter_non_members(&self.database, conversation, users).await
    }

    /// Returns up to `max_members` members, from the rows.
    pub(crate) async fn all_members(
        &self,
        conversation: &ConversationId,
        most: usize,
    ) -> Result<HashSet<UserId>> {
        membership::all(&self.database, conversation, most).await
    }

    /// Lists members ordered by id, with the cursor of the next page.
    async fn list_members(
        &self,
        conversation: &ConversationId,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<(Vec<MemberRow>, Option<String>)> {
        let after = match cursor {
            Some(cursor) => pagination::decode_cursor(cursor)?,
            None => String::new(),
        };
        if cursor.is_some() && UserId::new(&after).is_err() {
            return Err(pagination::invalid_cursor());
        }
        // One more row shows whether there is a next page.
        let mut members =
            member_rows::find_page(&self.database, conversation, &after, limit + 1).await?;
        let page = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = members.len() > page;
        members.truncate(page);
        let last = members.last().filter(|_| more);
        let next = last.map(|member| pagination::encode_cursor(member.user_id.as_str()));
        Ok((members, next))
    }

    /// Number of row reads because the store had no answer: of the membership cache, and of the participant cache.
    pub fn cache_misses(&self) -> (u64, u64) {
        (
            self.membership_cache.row_reads(),
            self.participant_cache.row_reads(),
        )
    }
}

impl Members for Conversations {
    fn is_member<'a>(
        &'a self,
        conversation: &'a ConversationId,
        user: &'a UserId,
    ) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + 'a>> {
        Box::pin(self.membership_cache.is_member(conversation, user))
    }
}

impl std::fmt::Debug for Conversations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Conversations")
    }
}
