//! Publishes a committed change of members: invalidates caches, updates unread counters, notifies nodes and users.
//!
//! ```text
//! commit with outbox entry ─▶ invalidate caches, frame to the nodes ─▶ unread counters ─▶ frames to the users ─▶ acknowledge
//!                                  │ error: the call fails                │ error: the call succeeds
//!                                  └──────────────┬───────────────────────┘
//!                                                 ▼
//!                              the outbox publishes the present state of the same members
//! ```
//!
//! Invariants:
//! 1. Every committed change is published, even if the process ends, the call is cancelled or the store is unavailable.
//! 2. The call that commits a change is acknowledged only after the caches are invalidated. A repetition that changes
//!    nothing does not wait for the outbox.
//! 3. Publishing a change twice is harmless. A change that is published late announces the present members, so it never
//!    undoes a newer one.

use super::Conversations;
use super::model::{
    MemberChange, MemberRole, MemberTransition, MembersChangedFrame, MembershipChange,
    MembershipChangedFrame,
};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::bus::frame::{self, BusFrameKind};
use crate::database::WriteTransaction;
use crate::failpoint::failpoint;
use crate::ids::{ConversationId, UserId};
use crate::outbox::{self, OutboxHandler, OutboxPayload};

/// Maximum number of users per pipeline.
const MAX_USERS_PER_PIPELINE: usize = 500;
/// Maximum number of members that a frame names. Only the creation or deletion of a conversation can concern more.
const MAX_NAMED_IN_FRAME: usize = 1_000;
/// Maximum number of users in one entry of the outbox. Only the deletion of a conversation can concern more.
const MAX_USERS_PER_ENTRY: usize = 1_000;

impl OutboxPayload for MembershipChange {
    const KIND: &'static str = "members_changed";

    fn subject(&self) -> String {
        outbox_subject(&self.conversation)
    }
}

impl OutboxHandler<MembershipChange> for Conversations {
    async fn apply(&self, change: MembershipChange) -> Result<()> {
        match self.present_state_of(&change).await? {
            None => {
                self.invalidate_and_publish(&change).await?;
                self.notify_members(&change).await
            }
            Some(present) => {
                self.invalidate_and_publish(&present).await?;
                let users: Vec<UserId> = present.users.iter().map(|(id, _)| id.clone()).collect();
                let (conversation, version) = (&present.conversation, present.members_version);
                self.unread
                    .update_from_rows(conversation, &users, version)
                    .await?;
                self.publish_large_change(&present, false).await?;
                self.publish_to_users(&present).await
            }
        }
    }
}

/// Subject of the outbox entries of a conversation.
pub(crate) fn outbox_subject(conversation: &ConversationId) -> String {
    format!("conversation:{conversation}")
}

impl Conversations {
    /// Commits the transaction and publishes the change. Fails with [`Error::CommittedNotPublished`] if the change is
    /// committed and the caches are not invalidated.
    pub(super) async fn commit_and_publish(
        &self,
        mut tx: WriteTransaction,
        change: &MembershipChange,
    ) -> Result<()> {
        let mut entries = Vec::with_capacity(1);
        for part in change.split() {
            entries.push(outbox::insert(&mut tx, self.ctx.now(), &part).await?);
        }
        tx.commit().await?;
        failpoint!(self.ctx, "members.committed");
        let invalidated = self.invalidate_and_publish(change).await;
        invalidated.map_err(|error| Error::CommittedNotPublished(Box::new(error)))?;
        failpoint!(self.ctx, "members.invalidated");
        let notified = self.notify_members(change).await;
        log_failure("notify the members of a changed conversation", &notified);
        failpoint!(self.ctx, "members.published");
        if notified.is_ok() {
            for entry in entries {
                entry.acknowledge(&self.database);
            }
        }
        Ok(())
    }

    /// Returns the change with the present state of its members; `None` if it is the last change of the conversation.
    async fn present_state_of(
        &self,
        change: &MembershipChange,
    ) -> Result<Option<MembershipChange>> {
        let row = self.find_conversation(&change.conversation).await?;
        let members_version = match &row {
            Some(row) if row.members_version == change.members_version => return Ok(None),
            Some(row) => row.members_version,
            None if change.deleted => return Ok(None),
            // The deletion has an entry of its own.
            None => change.members_version,
        };
        let mut users = Vec::with_capacity(change.users.len());
        for (user, _) in &change.users {
            let transition = match self.find_member(&change.conversation, user).await? {
                Some(member) if member.joined_version == change.members_version => {
                    MemberTransition::Joined(member.role)
                }
                Some(member) => MemberTransition::Present(member.role),
                None => MemberTransition::Left,
            };
            users.push((user.clone(), transition));
        }
        Ok(Some(MembershipChange {
            members_version,
            users,
            ..change.clone()
        }))
    }

    /// Updates the unread counters of joined and left members, and notifies the users.
    async fn notify_members(&self, change: &MembershipChange) -> Result<()> {
        let users_with = |wanted: fn(&MemberTransition) -> bool| -> Vec<UserId> {
            let users = change.users.iter().filter(|(_, it)| wanted(it));
            users.map(|(user, _)| user.clone()).collect()
        };
        let (conversation, version) = (&change.conversation, change.members_version);
        let joined = users_with(|it| matches!(it, MemberTransition::Joined(_)));
        if !joined.is_empty() {
            self.unread
                .add_members(conversation, &joined, version, change.last_seq)
                .await?;
        }
        for left in users_with(|it| *it == MemberTransition::Left).chunks(MAX_USERS_PER_PIPELINE) {
            self.unread
                .remove_members(conversation, left, version)
                .await?;
        }
        failpoint!(self.ctx, "members.counted");
        self.publish_large_change(change, true).await?;
        self.publish_to_users(change).await
    }

    async fn publish_to_users(&self, change: &MembershipChange) -> Result<()> {
        let command = self.ctx.store().bus().publish_command();
        for users in change.users.chunks(MAX_USERS_PER_PIPELINE) {
            let mut pipe = redis::pipe();
            for (user, transition) in users {
                let body = MembershipChangedFrame {
                    conversation_id: change.conversation.clone(),
                    members_version: change.members_version,
                    role: transition.role(),
                    joined: matches!(transition, MemberTransition::Joined(_)),
                };
                pipe.cmd(command)
                    .arg(self.ctx.keys().user_channel(user))
                    .arg(frame::encode_json(BusFrameKind::MembershipChanged, &body))
                    .ignore();
            }
            if !pipe.is_empty() {
                pipe.exec_async(&mut self.ctx.store().idempotent()).await?;
            }
        }
        Ok(())
    }
}

impl MemberTransition {
    /// Role of the user; `None` if the user left.
    const fn role(self) -> Option<MemberRole> {
        match self {
            Self::Joined(role) | Self::Present(role) => Some(role),
            Self::Left => None,
        }
    }
}

impl MembershipChange {
    /// Splits a change of very many members into changes of bounded size.
    fn split(&self) -> impl Iterator<Item = Self> {
        let parts = self.users.len().div_ceil(MAX_USERS_PER_ENTRY).max(1);
        (0..parts).map(|nth| {
            let users = self.users.iter().skip(nth * MAX_USERS_PER_ENTRY);
            Self {
                conversation: self.conversation.clone(),
                users: users.take(MAX_USERS_PER_ENTRY).cloned().collect(),
                ..*self
            }
        })
    }

    /// The frame for the channel of the conversation.
    pub(super) fn members_changed_frame(&self) -> Vec<u8> {
        let named = self.users.iter().take(MAX_NAMED_IN_FRAME);
        let members = named.map(|(user_id, transition)| MemberChange {
            user_id: user_id.clone(),
            role: transition.role(),
            joined: matches!(transition, MemberTransition::Joined(_)),
        });
        let body = MembersChangedFrame {
            members_version: self.members_version,
            deleted: self.deleted,
            members: members.collect(),
        };
        frame::encode_json(BusFrameKind::MembersChanged, &body)
    }
}
