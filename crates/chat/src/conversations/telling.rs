//! After a change of members: the caches forget, the counts follow, the nodes and the users are told.
//!
//! Always true:
//! 1. A change that was committed is told, also when its call was given up or the store was away: what is owed is tried
//!    again in the background, in order, as long as there is room to remember it.
//! 2. A call is acknowledged only after the caches have forgotten.
//! 3. Telling twice does no harm.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Conversations;
use super::words::MemberRole;
use crate::bus::frame::{BusFrameKind, head};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::membership::invalidate_and_publish;
use crate::ticking::{BackgroundTask, BackgroundTasks, log_failure};

/// Changes that are remembered until they are told.
const MAX_OUTBOX_CHANGES: usize = 1_000;
/// Users who are told by one pipeline.
const MAX_USERS_PER_PIPELINE: usize = 500;
/// Members up to which a frame names them; where more went, the conversation was deleted.
const MAX_NAMED_IN_FRAME: usize = 1_000;
/// How often what is owed is tried again.
const OUTBOX_RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// How somebody stands after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberTransition {
    /// They came.
    Joined(MemberRole),
    /// They are there, perhaps with another role.
    Present(MemberRole),
    /// They are not there any more.
    Left,
    /// As before; what is cached about them is to be read again.
    Unchanged,
}

/// A change of members that was committed.
#[derive(Debug, Clone)]
pub(super) struct MembershipChange {
    pub(super) conversation: ConversationId,
    pub(super) members_version: u64,
    pub(super) last_seq: u64,
    pub(super) deleted: bool,
    pub(super) users: Vec<(UserId, MemberTransition)>,
}

/// What the nodes are told on the conversation's channel.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MembersChangedFrame {
    pub(crate) members_version: u64,
    pub(crate) deleted: bool,
    /// Empty where it is not known what became of a change: who is a member has to be asked.
    pub(crate) members: Vec<MemberChangeEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberChangeEntry {
    pub(crate) user_id: UserId,
    /// None for one who left.
    pub(crate) role: Option<MemberRole>,
    /// Whether they were none before.
    #[serde(default)]
    pub(crate) joined: bool,
}

/// What a user is told on their own channel.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MembershipChangedFrame {
    pub(crate) conversation_id: ConversationId,
    pub(crate) members_version: u64,
    /// None for one who left.
    pub(crate) role: Option<MemberRole>,
    /// Whether they were no member before.
    #[serde(default)]
    pub(crate) joined: bool,
}

/// Changes that are not told yet.
#[derive(Default)]
pub(super) struct MembershipOutbox(Mutex<VecDeque<Arc<MembershipChange>>>);

/// A change that is owed when this is dropped, unless it was told.
pub(super) struct OutboxGuard<'a> {
    outbox: &'a MembershipOutbox,
    change: Option<Arc<MembershipChange>>,
}

impl MembershipOutbox {
    /// To be taken before the commit: whatever becomes of it, the caches will forget.
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
    /// The change is committed, and told in full.
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
    /// Starts the background work.
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

    /// Tells what could not be told before. To be called now and then. Ends when the store is away; what fails for a reason
    /// of its own keeps no other conversation waiting.
    pub async fn settle(&self) -> Result<()> {
        let mut failed = Ok(());
        let mut stuck = HashSet::new();
        for change in self.outbox.snapshot() {
            // Those of one conversation are told in order.
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

    /// Tells of a change that is committed, and says so if it cannot.
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

    /// The unread counts follow the members. What fails there is owed there.
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
    /// What is told: the role, none for one who left; nothing where nothing changed.
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
