//! Publishes a committed change of members: invalidates caches, updates unread counters, notifies nodes and users.
//!
//! Invariants:
//! 1. Every committed change is published, even if the call is cancelled or the store is unavailable: the change stays
//!    in the outbox, and a background task retries it. Changes of one conversation are published in order.
//! 2. A call is acknowledged only after the caches are invalidated.
//! 3. Publishing a change twice is harmless.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::Conversations;
use super::model::{
    MemberChange, MemberRole, MemberTransition, MembersChangedFrame, MembershipChange,
    MembershipChangedFrame,
};
use crate::api::error::{Error, Result};
use crate::background::{BackgroundTask, BackgroundTasks, log_failure};
use crate::bus::frame::{self, BusFrameKind};
use crate::database::WriteTransaction;
use crate::ids::UserId;

/// Maximum number of users per pipeline.
const MAX_USERS_PER_PIPELINE: usize = 500;
/// Maximum number of members that a frame names. Only the creation or deletion of a conversation can concern more.
const MAX_NAMED_IN_FRAME: usize = 1_000;
/// Interval of outbox retries.
const OUTBOX_RETRY_INTERVAL: Duration = Duration::from_millis(250);

impl Conversations {
    /// Starts the background task; it stops when the returned value is dropped.
    pub fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        BackgroundTasks::new(vec![BackgroundTask::spawn_periodic(
            self,
            OUTBOX_RETRY_INTERVAL,
            "publish pending changes of conversations",
            |conversations| async move {
                let (members, updates) =
                    tokio::join!(conversations.retry_outbox(), conversations.retry_updates());
                members.and(updates)
            },
        )])
    }

    /// Publishes the changes in the outbox. The background task calls this. It stops if the store is unavailable; a
    /// change that fails for another reason only delays the later changes of its conversation.
    pub async fn retry_outbox(&self) -> Result<()> {
        let mut result = Ok(());
        let mut delayed = HashSet::new();
        for change in self.outbox.snapshot() {
            if delayed.contains(&change.conversation) {
                continue;
            }
            match self.publish_change(&change).await {
                Ok(()) => self.outbox.remove(&change),
                Err(error) if error.is_store_unavailable() => return Err(error),
                Err(error) => {
                    result = Err(error);
                    delayed.insert(change.conversation.clone());
                }
            }
        }
        result
    }

    /// Commits the transaction, if there is one, and publishes the change. Fails with
    /// [`Error::CommittedNotPublished`] if only the second step fails.
    pub(super) async fn commit_and_publish(
        &self,
        tx: Option<WriteTransaction>,
        change: MembershipChange,
    ) -> Result<()> {
        let mut guard = self.outbox.guard(&change);
        if let Some(tx) = tx {
            tx.commit().await?;
        }
        let change = guard.set_committed(change);
        let published = self.publish_change(&change).await;
        published.map_err(|error| Error::CommittedNotPublished(Box::new(error)))?;
        guard.complete();
        Ok(())
    }

    async fn publish_change(&self, change: &MembershipChange) -> Result<()> {
        self.invalidate_and_publish(change).await?;
        self.update_unread_counters(change).await;
        self.publish_to_users(change).await
    }

    /// Updates the unread counters of joined and left members. Failed updates go into the retry queue of `Unread`.
    async fn update_unread_counters(&self, change: &MembershipChange) {
        let users_with = |wanted: fn(&MemberTransition) -> bool| -> Vec<UserId> {
            let users = change.users.iter().filter(|(_, it)| wanted(it));
            users.map(|(user, _)| user.clone()).collect()
        };
        let (conversation, version) = (&change.conversation, change.members_version);
        let joined = users_with(|it| matches!(it, MemberTransition::Joined(_)));
        if !joined.is_empty() {
            let counted = self
                .unread
                .add_members(conversation, &joined, version, change.last_seq);
            log_failure("add the unread counters of new members", &counted.await);
        }
        for left in users_with(|it| *it == MemberTransition::Left).chunks(MAX_USERS_PER_PIPELINE) {
            let counted = self
                .unread
                .remove_members(conversation, left, version)
                .await;
            log_failure("remove the unread counters of former members", &counted);
        }
    }

    async fn publish_to_users(&self, change: &MembershipChange) -> Result<()> {
        self.publish_large_change(change).await?;
        let command = self.ctx.store().bus().publish_command();
        for users in change.users.chunks(MAX_USERS_PER_PIPELINE) {
            let mut pipe = redis::pipe();
            for (user, transition) in users {
                let Some(role) = transition.published_role() else {
                    continue;
                };
                let body = MembershipChangedFrame {
                    conversation_id: change.conversation.clone(),
                    members_version: change.members_version,
                    role,
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
    /// Role to publish: `Some(None)` if the user left, `None` if nothing is published.
    const fn published_role(self) -> Option<Option<MemberRole>> {
        match self {
            Self::Joined(role) | Self::Present(role) => Some(Some(role)),
            Self::Left => Some(None),
            Self::Unchanged => None,
        }
    }
}

impl MembershipChange {
    /// The frame for the channel of the conversation.
    pub(super) fn members_changed_frame(&self) -> Vec<u8> {
        let named = self.users.iter().take(MAX_NAMED_IN_FRAME);
        let members = named.filter_map(|(user_id, transition)| {
            Some(MemberChange {
                user_id: user_id.clone(),
                role: transition.published_role()?,
                joined: matches!(transition, MemberTransition::Joined(_)),
            })
        });
        let body = MembersChangedFrame {
            members_version: self.members_version,
            deleted: self.deleted,
            members: members.collect(),
        };
        frame::encode_json(BusFrameKind::MembersChanged, &body)
    }
}
