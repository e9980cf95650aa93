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
use crate::bus::frame::{Kind, head};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::membership::changed;
use crate::ticking::{Task, Ticking, told};

/// Changes that are remembered until they are told.
const MOST_OWED: usize = 1_000;
/// Users who are told by one pipeline.
const MOST_TOLD: usize = 500;
/// Members up to which a frame names them; where more went, the conversation was deleted.
const MOST_NAMED: usize = 1_000;
/// How often what is owed is tried again.
const TICK: Duration = Duration::from_millis(250);

/// How somebody stands after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// They came.
    Joined(MemberRole),
    /// They are there, perhaps with another role.
    Is(MemberRole),
    /// They are not there any more.
    Left,
    /// As before; what is cached about them is to be read again.
    Same,
}

/// A change of members that was committed.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) conversation: ConversationId,
    pub(super) members_version: u64,
    pub(super) last_seq: u64,
    pub(super) deleted: bool,
    pub(super) users: Vec<(UserId, Standing)>,
}

/// What the nodes are told on the conversation's channel.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MembersChanged {
    pub(crate) members_version: u64,
    pub(crate) deleted: bool,
    /// Empty where it is not known what became of a change: who is a member has to be asked.
    pub(crate) members: Vec<MemberChanged>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberChanged {
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
pub(crate) struct MembershipChanged {
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
pub(super) struct Owed(Mutex<VecDeque<Arc<Change>>>);

/// A change that is owed when this is dropped, unless it was told.
pub(super) struct Debt<'a> {
    owed: &'a Owed,
    change: Option<Arc<Change>>,
}

impl Owed {
    /// To be taken before the commit: whatever becomes of it, the caches will forget.
    pub(super) fn promise(&self, change: &Change) -> Debt<'_> {
        let doubtful = change.users.iter();
        let users = doubtful.map(|(user, _)| (user.clone(), Standing::Same));
        Debt {
            owed: self,
            change: Some(Arc::new(Change {
                users: users.collect(),
                ..change.clone()
            })),
        }
    }

    fn all(&self) -> Vec<Arc<Change>> {
        self.0.lock().iter().cloned().collect()
    }

    fn paid(&self, change: &Arc<Change>) {
        self.0.lock().retain(|it| !Arc::ptr_eq(it, change));
    }
}

impl Debt<'_> {
    /// The change is committed, and told in full.
    fn committed(&mut self, change: Change) -> Arc<Change> {
        let change = Arc::new(change);
        self.change = Some(Arc::clone(&change));
        change
    }

    fn paid(mut self) {
        self.change = None;
    }
}

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        let Some(change) = self.change.take() else {
            return;
        };
        let mut owed = self.owed.0.lock();
        if owed.len() < MOST_OWED {
            owed.push_back(change);
        } else {
            tracing::error!(conversation = %change.conversation, "too many changes of members could not be told, this one is late by the time its caches live");
        }
    }
}

impl Conversations {
    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        let work = |it: Arc<Self>| async move { it.settle().await };
        let telling = Task::each(self, TICK, "tell of changed members", work);
        Ticking::new(vec![telling])
    }

    /// Tells what could not be told before. To be called now and then. Ends when the store is away; what fails for a reason
    /// of its own keeps no other conversation waiting.
    pub async fn settle(&self) -> Result<()> {
        let mut failed = Ok(());
        let mut stuck = HashSet::new();
        for change in self.owed.all() {
            // Those of one conversation are told in order.
            if stuck.contains(&change.conversation) {
                continue;
            }
            match self.tell(&change).await {
                Ok(()) => self.owed.paid(&change),
                Err(error) => {
                    let away = error.is_away();
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
    pub(super) async fn told(&self, mut debt: Debt<'_>, change: Change) -> Result<()> {
        let change = debt.committed(change);
        match self.tell(&change).await {
            Ok(()) => {
                debt.paid();
                Ok(())
            }
            Err(error) => Err(Error::Untold(Box::new(error))),
        }
    }

    async fn tell(&self, change: &Change) -> Result<()> {
        let users: Vec<UserId> = change.users.iter().map(|(user, _)| user.clone()).collect();
        let keys = self.ctx.keys();
        let more = match change.deleted {
            true => vec![
                keys.recent(&change.conversation),
                keys.top(&change.conversation),
            ],
            false => Vec::new(),
        };
        let frame = change.frame();
        changed(&self.ctx, &change.conversation, &users, &more, &frame).await?;
        self.count(change).await;
        self.tell_users(change).await
    }

    /// The unread counts follow the members. What fails there is owed there.
    async fn count(&self, change: &Change) {
        let of = |wanted: fn(&Standing) -> bool| {
            let users = change.users.iter().filter(move |(_, it)| wanted(it));
            users.map(|(user, _)| user.clone()).collect::<Vec<_>>()
        };
        let (conversation, version) = (&change.conversation, change.members_version);
        let joined = of(|it| matches!(it, Standing::Joined(_)));
        if !joined.is_empty() {
            let counted = self
                .unread
                .joined(conversation, &joined, version, change.last_seq);
            told("count for new members", &counted.await);
        }
        for left in of(|it| *it == Standing::Left).chunks(MOST_TOLD) {
            let counted = self.unread.left(conversation, left, version);
            told("stop counting for members who left", &counted.await);
        }
    }

    async fn tell_users(&self, change: &Change) -> Result<()> {
        let command = self.ctx.store().bus().publish_command();
        for users in change.users.chunks(MOST_TOLD) {
            let mut pipe = redis::pipe();
            for (user, standing) in users {
                let Some(role) = standing.role() else {
                    continue;
                };
                let told = MembershipChanged {
                    conversation_id: change.conversation.clone(),
                    members_version: change.members_version,
                    role,
                    joined: matches!(standing, Standing::Joined(_)),
                };
                pipe.cmd(command)
                    .arg(self.ctx.keys().user_bus(user))
                    .arg(encode(Kind::Membership, &told))
                    .ignore();
            }
            if !pipe.is_empty() {
                pipe.exec_async(&mut self.ctx.store().repeatable()).await?;
            }
        }
        Ok(())
    }
}

impl Standing {
    /// What is told: the role, none for one who left; nothing where nothing changed.
    const fn role(self) -> Option<Option<MemberRole>> {
        match self {
            Self::Joined(role) | Self::Is(role) => Some(Some(role)),
            Self::Left => Some(None),
            Self::Same => None,
        }
    }
}

impl Change {
    fn frame(&self) -> Vec<u8> {
        let named = self.users.iter().take(MOST_NAMED);
        let members = named.filter_map(|(user_id, standing)| {
            let role = standing.role()?;
            Some(MemberChanged {
                user_id: user_id.clone(),
                role,
                joined: matches!(standing, Standing::Joined(_)),
            })
        });
        let told = MembersChanged {
            members_version: self.members_version,
            deleted: self.deleted,
            members: members.collect(),
        };
        encode(Kind::MembersChanged, &told)
    }
}

fn encode(kind: Kind, body: &impl Serialize) -> Vec<u8> {
    let mut frame = head(kind, 128);
    serde_json::to_writer(&mut frame, body).expect("texts and numbers are JSON");
    frame
}
