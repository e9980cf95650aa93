//! Publishes a committed change of members: invalidates caches, updates unread counters, notifies nodes and users.
//!
//! Invariants:
//! 1. Every committed change is published, even if the call is cancelled or the store is unavailable: the change stays
//!    in the in-memory outbox, and a background task retries it. Changes of one conversation are published in order. If
//!    the outbox is full, the change is logged, and caches stay stale until their TTL ends.
//! 2. A call is acknowledged only after the caches are invalidated.
//! 3. Publishing a change twice is harmless.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Conversations;
use super::enums::MemberRole;
use crate::api::error::{Error, Result};
use crate::background::{BackgroundTask, BackgroundTasks, log_failure};
use crate::bus::frame::{BusFrameKind, head};
use crate::ids::{ConversationId, UserId};
use crate::membership::invalidate_and_publish;

/// Maximum number of changes in the outbox.
const MAX_OUTBOX_CHANGES: usize = 1_000;
/// Maximum number of users per pipeline.
const MAX_USERS_PER_PIPELINE: usize = 500;
/// Maximum number of members that a frame names. Only the creation or deletion of a conversation can concern more.
const MAX_NAMED_IN_FRAME: usize = 1_000;
/// Interval of outbox retries.
const OUTBOX_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Effect of a change on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberTransition {
    /// The user was not a member and is one now.
    Joined(MemberRole),
    /// The user is a member, perhaps with another role than before.
    Present(MemberRole),
    /// The user is not a member any more.
    Left,
    /// Unchanged or not known: only the caches of the user are invalidated.
    Unchanged,
}

/// A change of the members of one conversation.
#[derive(Debug, Clone)]
pub(super) struct MembershipChange {
    pub(super) conversation: ConversationId,
    pub(super) members_version: u64,
    pub(super) last_seq: u64,
    pub(super) deleted: bool,
    pub(super) users: Vec<(UserId, MemberTransition)>,
}

/// Frame on the channel of the conversation.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MembersChangedFrame {
    pub(crate) members_version: u64,
    pub(crate) deleted: bool,
    /// Empty if the result of a change is not known: receivers must read the members again.
    pub(crate) members: Vec<MemberChangeEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberChangeEntry {
    pub(crate) user_id: UserId,
    /// `None` if the user left.
    pub(crate) role: Option<MemberRole>,
    /// True if the user was not a member before.
    #[serde(default)]
    pub(crate) joined: bool,
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

/// In-memory queue of changes that must still be published.
#[derive(Default)]
pub(super) struct MembershipOutbox(Mutex<VecDeque<Arc<MembershipChange>>>);

/// Puts its change into the outbox when it is dropped, unless the change was published.
pub(super) struct OutboxGuard<'a> {
    outbox: &'a MembershipOutbox,
    change: Option<Arc<MembershipChange>>,
}

impl MembershipOutbox {
    /// Creates the guard of a change. Call it before the commit: if the result of the commit stays unknown, the guard
    /// invalidates the caches of these users without announcing a role (`MemberTransition::Unchanged`).
    pub(super) fn guard(&self, change: &MembershipChange) -> OutboxGuard<'_> {
        let doubtful = change.users.iter();
        let users = doubtful.map(|(user, _)| (user.clone(), MemberTransition::Unchanged));
        OutboxGuard {
            outbox: self,
            change: Some(Arc::new(MembershipChange {
                users: users.collect(),
                ..change.clone()
            })),
        }
    }

    fn snapshot(&self) -> Vec<Arc<MembershipChange>> {
        self.0.lock().iter().cloned().collect()
    }

    fn remove(&self, change: &Arc<MembershipChange>) {
        self.0.lock().retain(|it| !Arc::ptr_eq(it, change));
    }
}

impl OutboxGuard<'_> {
    /// The change is committed: from now on the guard covers the whole change.
    fn set_committed(&mut self, change: MembershipChange) -> Arc<MembershipChange> {
        let change = Arc::new(change);
        self.change = Some(Arc::clone(&change));
        change
    }

    fn complete(mut self) {
        self.change = None;
    }
}

impl Drop for OutboxGuard<'_> {
    fn drop(&mut self) {
        let Some(change) = self.change.take() else {
            return;
        };
        let mut owed = self.outbox.0.lock();
        if owed.len() < MAX_OUTBOX_CHANGES {
            owed.push_back(change);
        } else {
            tracing::error!(conversation = %change.conversation, "the outbox of member changes is full; caches of this conversation can stay stale until their TTL ends");
        }
    }
}

impl Conversations {
    /// Starts the background tasks; they stop when the returned value is dropped.
    pub fn tick(self: &Arc<Self>) -> BackgroundTasks {
        let work = |it: Arc<Self>| async move { it.settle().await };
        let telling = BackgroundTask::spawn_periodic(
            self,
            OUTBOX_RETRY_INTERVAL,
            "publish pending member changes",
            work,
        );
        BackgroundTasks::new(vec![telling])
    }

    /// Publishes the changes in the outbox. The background task calls this. It stops if the store is unavailable; a
    /// change that fails for another reason only delays the later changes of its conversation.
    pub async fn settle(&self) -> Result<()> {
        let mut failed = Ok(());
        let mut stuck = HashSet::new();
        for change in self.outbox.snapshot() {
            // Changes of one conversation are published in order.
            if stuck.contains(&change.conversation) {
                continue;
            }
            match self.publish_change(&change).await {
                Ok(()) => self.outbox.remove(&change),
                Err(error) => {
                    let away = error.is_store_unavailable();
                    failed = Err(error);
                    if away {
                        break;
                    }
                    stuck.insert(change.conversation.clone());
                }
            }
        }
        failed
    }

    /// Publishes a committed change, or fails with `Error::CommittedNotPublished`.
    pub(super) async fn publish_committed(
        &self,
        mut debt: OutboxGuard<'_>,
        change: MembershipChange,
    ) -> Result<()> {
        let change = debt.set_committed(change);
        match self.publish_change(&change).await {
            Ok(()) => {
                debt.complete();
                Ok(())
            }
            Err(error) => Err(Error::CommittedNotPublished(Box::new(error))),
        }
    }

    async fn publish_change(&self, change: &MembershipChange) -> Result<()> {
        let users: Vec<UserId> = change.users.iter().map(|(user, _)| user.clone()).collect();
        let keys = self.ctx.keys();
        let more = match change.deleted {
            true => vec![
                keys.recent_list(&change.conversation),
                keys.apply_watermark(&change.conversation),
            ],
            false => Vec::new(),
        };
        let frame = change.frame();
        invalidate_and_publish(&self.ctx, &change.conversation, &users, &more, &frame).await?;
        self.update_unread_counters(change).await;
        self.publish_to_users(change).await
    }

    /// Updates the unread counters of joined and left members. Failed updates go into the retry queue of `Unread`.
    async fn update_unread_counters(&self, change: &MembershipChange) {
        let of = |wanted: fn(&MemberTransition) -> bool| {
            let users = change.users.iter().filter(move |(_, it)| wanted(it));
            users.map(|(user, _)| user.clone()).collect::<Vec<_>>()
        };
        let (conversation, version) = (&change.conversation, change.members_version);
        let joined = of(|it| matches!(it, MemberTransition::Joined(_)));
        if !joined.is_empty() {
            let counted = self
                .unread
                .apply_joined(conversation, &joined, version, change.last_seq);
            log_failure("add the unread counters of new members", &counted.await);
        }
        for left in of(|it| *it == MemberTransition::Left).chunks(MAX_USERS_PER_PIPELINE) {
            let counted = self.unread.left(conversation, left, version);
            log_failure(
                "remove the unread counters of former members",
                &counted.await,
            );
        }
    }

    async fn publish_to_users(&self, change: &MembershipChange) -> Result<()> {
        let command = self.ctx.store().bus().publish_command();
        for users in change.users.chunks(MAX_USERS_PER_PIPELINE) {
            let mut pipe = redis::pipe();
            for (user, standing) in users {
                let Some(role) = standing.published_role() else {
                    continue;
                };
                let told = MembershipChangedFrame {
                    conversation_id: change.conversation.clone(),
                    members_version: change.members_version,
                    role,
                    joined: matches!(standing, MemberTransition::Joined(_)),
                };
                pipe.cmd(command)
                    .arg(self.ctx.keys().user_channel(user))
                    .arg(encode_json(BusFrameKind::MembershipChanged, &told))
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
    fn frame(&self) -> Vec<u8> {
        let named = self.users.iter().take(MAX_NAMED_IN_FRAME);
        let members = named.filter_map(|(user_id, standing)| {
            let role = standing.published_role()?;
            Some(MemberChangeEntry {
                user_id: user_id.clone(),
                role,
                joined: matches!(standing, MemberTransition::Joined(_)),
            })
        });
        let told = MembersChangedFrame {
            members_version: self.members_version,
            deleted: self.deleted,
            members: members.collect(),
        };
        encode_json(BusFrameKind::MembersChanged, &told)
    }
}

fn encode_json(kind: BusFrameKind, body: &impl Serialize) -> Vec<u8> {
    let mut frame = head(kind, 128);
    serde_json::to_writer(&mut frame, body).expect("a frame body can be serialized as JSON");
    frame
}
