//! Member lists of conversations: from the memory of the node, the set in the store, or the rows.
//!
//! Invariant: the list for a `members_version` is that of this version or a later one, whatever the store contains.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parlor_store::{LuaScript, script};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::model::MAX_LISTED_PARTICIPANTS;
use super::{Conversations, member_rows};
use crate::api::error::{Error, Result};
use crate::clock::duration_millis;
use crate::ids::{ConversationId, UserId};
use crate::keys::{ForeignKeyWarning, Key, TtlName};
use crate::single_flight::{FlightLeader, FlightRole, SingleFlight};

static READ_PARTICIPANTS: LuaScript = script!("scripts/read_participants.lua");
static CACHE_PARTICIPANTS: LuaScript = script!("scripts/cache_participants.lua");

static FOREIGN_SET: ForeignKeyWarning =
    ForeignKeyWarning::new("the members are read from the database");

/// Maximum number of conversations in the memory of a node, and of users in them.
const MAX_CACHED_CONVERSATIONS: usize = 10_000;
const MAX_CACHED_USERS: u64 = 500_000;
/// Maximum number of concurrent single-flight loads; further callers load the list themselves.
const MAX_FLIGHTS: usize = 10_000;

/// Member list at a `members_version`.
#[derive(Clone)]
struct ParticipantList {
    version: u64,
    users: Arc<[UserId]>,
}

#[derive(Clone)]
struct ParticipantWeighter;

impl Weighter<ConversationId, ParticipantList> for ParticipantWeighter {
    fn weight(&self, _: &ConversationId, list: &ParticipantList) -> u64 {
        list.users.len() as u64 + 1
    }
}

/// Member lists in the memory of this node.
pub(super) struct ParticipantCache {
    memory: Cache<ConversationId, ParticipantList, ParticipantWeighter>,
    single_flight: SingleFlight<ConversationId, ParticipantList>,
    row_reads: AtomicU64,
}

impl Default for ParticipantCache {
    fn default() -> Self {
        Self {
            memory: Cache::with_weighter(
                MAX_CACHED_CONVERSATIONS,
                MAX_CACHED_USERS,
                ParticipantWeighter,
            ),
            single_flight: SingleFlight::new(MAX_FLIGHTS),
            row_reads: AtomicU64::new(0),
        }
    }
}

impl ParticipantCache {
    /// Number of row reads.
    pub(super) fn row_reads(&self) -> u64 {
        self.row_reads.load(Ordering::Relaxed)
    }
}

impl Conversations {
    /// Returns the members of a conversation with at most 1,000 members, at this `members_version` or a later one.
    pub async fn participants_at(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<[UserId]>> {
        let known = self.participant_cache.memory.get(conversation);
        match known.filter(|list| list.version >= version) {
            Some(list) => Ok(list.users),
            // Boxed, because very many messages are applied at the same time, and few of them load the list.
            None => Box::pin(self.load_shared_participants(conversation, version)).await,
        }
    }

    async fn load_shared_participants(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<[UserId]>> {
        let leader = match self.participant_cache.single_flight.join(conversation) {
            FlightRole::Follower(follower) => match follower.wait().await {
                Some(list) if list.version >= version => return Ok(list.users),
                _ => None,
            },
            FlightRole::Leader(leader) => Some(leader),
            FlightRole::Bypass => None,
        };
        let list = self.load_participants(conversation, version, leader);
        Ok(list.await?.users)
    }

    /// Refills the set in the store, which is missing or has another version than this one.
    pub(crate) async fn refill_participants(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<()> {
        match self.participant_cache.single_flight.join(conversation) {
            FlightRole::Leader(leader) => {
                let list = self.load_participants(conversation, version, Some(leader));
                list.await.map(drop)
            }
            // Another caller fills the set, or too many loads are in progress: the next message tries again.
            FlightRole::Follower(_) | FlightRole::Bypass => Ok(()),
        }
    }

    async fn load_participants(
        &self,
        conversation: &ConversationId,
        version: u64,
        leader: Option<FlightLeader<'_, ConversationId, ParticipantList>>,
    ) -> Result<ParticipantList> {
        let epoch = self.ctx.store_epoch();
        let stored = match self
            .read_stored_participants(conversation, version, epoch)
            .await
        {
            Ok(stored) => Some(stored),
            Err(error) if error.is_store_outage() => None,
            Err(error) => return Err(error),
        };
        let list = match stored {
            Some((_, users)) if !users.is_empty() && self.ctx.store_epoch() == epoch => {
                ParticipantList {
                    version,
                    users: users.into(),
                }
            }
            stored => {
                let list = self.read_participant_rows(conversation).await?;
                if let Some((generation, _)) = stored {
                    self.store_participants(conversation, &generation, &list, epoch)
                        .await;
                }
                list
            }
        };
        let memory = &self.participant_cache.memory;
        memory.insert(conversation.clone(), list.clone());
        if let Some(leader) = leader {
            leader.complete(list.clone());
        }
        Ok(list)
    }

    /// Reads the generation, and the users if the set in the store has this version.
    async fn read_stored_participants(
        &self,
        conversation: &ConversationId,
        version: u64,
        epoch: u64,
    ) -> Result<(String, Vec<UserId>)> {
        let call = READ_PARTICIPANTS.keys(&self.participant_keys(conversation));
        let call = call.arg(format!("{version}|{epoch}"));
        let reply: Vec<String> = call.run(&self.ctx.store().idempotent()).await?;
        let mut reply = reply.into_iter();
        let generation = reply.next().unwrap_or_default();
        let users: std::result::Result<Vec<_>, _> = reply.map(UserId::new).collect();
        // If the set contains foreign values, the rows are read instead.
        let mut users = users.unwrap_or_default();
        users.sort_unstable();
        Ok((generation, users))
    }

    async fn read_participant_rows(
        &self,
        conversation: &ConversationId,
    ) -> Result<ParticipantList> {
        let reads = &self.participant_cache.row_reads;
        reads.fetch_add(1, Ordering::Relaxed);
        let limit = MAX_LISTED_PARTICIPANTS as u64 + 1;
        let found = member_rows::find_participants(&self.database, conversation, limit).await?;
        let (version, users) = found.unwrap_or_default();
        if users.len() > MAX_LISTED_PARTICIPANTS {
            return Err(Error::TooMany {
                items: "participants",
                given: users.len(),
                max: MAX_LISTED_PARTICIPANTS,
            });
        }
        Ok(ParticipantList {
            version,
            users: users.into(),
        })
    }

    async fn store_participants(
        &self,
        conversation: &ConversationId,
        generation: &str,
        list: &ParticipantList,
        epoch: u64,
    ) {
        let call = CACHE_PARTICIPANTS
            .keys(&self.participant_keys(conversation))
            .arg(generation)
            .arg(format!("{}|{epoch}", list.version))
            .arg(duration_millis(self.ctx.keys().ttl(TtlName::Participants)))
            .arg(&list.users[..]);
        let stored: redis::RedisResult<u8> = call.run(&self.ctx.store().idempotent()).await;
        match stored {
            Ok(2) => FOREIGN_SET.report(&self.ctx.keys().participants(conversation)),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot cache the participants"),
        }
    }

    /// Keys of the generation, of the set and of its version.
    fn participant_keys(&self, conversation: &ConversationId) -> [Key; 3] {
        let keys = self.ctx.keys();
        [
            keys.membership_generation(conversation),
            keys.participants(conversation),
            keys.participants_version(conversation),
        ]
    }
}
