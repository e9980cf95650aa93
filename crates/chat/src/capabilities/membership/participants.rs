//! Member lists of conversations: from the memory of the node, the set in the store, or the rows.
//!
//! Invariant: the list for a `members_version` is that of this version or a later one, whatever the store contains.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parlor_store::{LuaScript, script};
use quick_cache::Weighter;
use quick_cache::sync::Cache as Memory;
use tokio::sync::watch;

use super::rows;
use crate::api::error::{Error, Result};
use crate::context::{ChatContext, duration_millis};
use crate::database::Database;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;
use crate::single_flight::{FlightLeader, FlightRole, SingleFlight};

static READ_PARTICIPANTS: LuaScript = script!("scripts/read_participants.lua");
static CACHE_PARTICIPANTS: LuaScript = script!("scripts/cache_participants.lua");

/// Maximum number of members of a conversation whose members are listed.
pub const MAX_LISTED_PARTICIPANTS: usize = 1_000;
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
    fn weight(&self, _: &ConversationId, gathered: &ParticipantList) -> u64 {
        gathered.users.len() as u64 + 1
    }
}

/// Participant cache as one node uses it.
pub(crate) struct ParticipantCache {
    ctx: ChatContext,
    database: Database,
    epoch: watch::Receiver<u64>,
    memory: Memory<ConversationId, ParticipantList, ParticipantWeighter>,
    flights: SingleFlight<ConversationId, ParticipantList>,
    row_reads: AtomicU64,
}

impl ParticipantCache {
    pub(crate) fn new(ctx: ChatContext, database: Database) -> Self {
        Self {
            epoch: ctx.store().epoch(),
            memory: Memory::with_weighter(
                MAX_CACHED_CONVERSATIONS,
                MAX_CACHED_USERS,
                ParticipantWeighter,
            ),
            flights: SingleFlight::new(MAX_FLIGHTS),
            row_reads: AtomicU64::new(0),
            ctx,
            database,
        }
    }

    /// Number of row reads.
    pub(crate) fn row_reads(&self) -> u64 {
        self.row_reads.load(Ordering::Relaxed)
    }

    /// Returns the members of a conversation at this `members_version` or a later one.
    pub(crate) async fn at(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<[UserId]>> {
        let fresh = |gathered: &ParticipantList| gathered.version >= version;
        if let Some(known) = self.memory.get(conversation).filter(fresh) {
            return Ok(known.users);
        }
        Box::pin(self.load_shared(conversation, version)).await
    }

    async fn load_shared(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<[UserId]>> {
        let fresh = |gathered: &ParticipantList| gathered.version >= version;
        let gathered = match self.flights.join(conversation) {
            FlightRole::Follower(passenger) => passenger.wait().await.filter(fresh),
            FlightRole::Leader(pilot) => Some(self.load(conversation, version, Some(pilot)).await?),
            FlightRole::Bypass => None,
        };
        let gathered = match gathered {
            Some(gathered) => gathered,
            None => self.load(conversation, version, None).await?,
        };
        Ok(gathered.users)
    }

    /// Refills the set in the store, which is missing or has another version than this one.
    pub(crate) async fn refill_store(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<()> {
        match self.flights.join(conversation) {
            FlightRole::Leader(pilot) => {
                let gathered = self.load(conversation, version, Some(pilot)).await;
                gathered.map(drop)
            }
            // Another caller fills the set, or too many loads are in progress: the next message tries again.
            FlightRole::Follower(_) | FlightRole::Bypass => Ok(()),
        }
    }

    async fn load(
        &self,
        conversation: &ConversationId,
        version: u64,
        pilot: Option<FlightLeader<'_, ConversationId, ParticipantList>>,
    ) -> Result<ParticipantList> {
        let epoch = *self.epoch.borrow();
        let stored = match self.read_store(conversation, version, epoch).await {
            Ok(stored) => Some(stored),
            Err(error) if error.is_store_unavailable() => None,
            Err(error) => return Err(error),
        };
        let gathered = match stored {
            Some((_, users)) if !users.is_empty() && *self.epoch.borrow() == epoch => {
                ParticipantList {
                    version,
                    users: users.into(),
                }
            }
            stored => {
                let gathered = self.read_rows(conversation).await?;
                if let Some((generation, _)) = stored {
                    self.write_store(conversation, &generation, &gathered, epoch)
                        .await;
                }
                gathered
            }
        };
        self.memory.insert(conversation.clone(), gathered.clone());
        if let Some(pilot) = pilot {
            pilot.complete(gathered.clone());
        }
        Ok(gathered)
    }

    /// Reads the generation, and the users if the set in the store has this version.
    async fn read_store(
        &self,
        conversation: &ConversationId,
        version: u64,
        epoch: u64,
    ) -> Result<(String, Vec<UserId>)> {
        let call = READ_PARTICIPANTS.keys(&self.script_keys(conversation)[..]);
        let call = call.arg(format!("{version}|{epoch}"));
        let reply: Vec<String> = call.run(&self.ctx.store().idempotent()).await?;
        let mut reply = reply.into_iter();
        let generation = reply.next().unwrap_or_default();
        let users = reply.map(UserId::new);
        let users: std::result::Result<Vec<_>, _> = users.collect();
        // The set contains foreign values: read the rows instead.
        let mut users = users.unwrap_or_default();
        users.sort_unstable();
        Ok((generation, users))
    }

    async fn read_rows(&self, conversation: &ConversationId) -> Result<ParticipantList> {
        self.row_reads.fetch_add(1, Ordering::Relaxed);
        let most = MAX_LISTED_PARTICIPANTS + 1;
        let found = rows::find_participants(&self.database, conversation, most).await?;
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

    async fn write_store(
        &self,
        conversation: &ConversationId,
        generation: &str,
        gathered: &ParticipantList,
        epoch: u64,
    ) {
        let call = CACHE_PARTICIPANTS
            .keys(&self.script_keys(conversation)[..])
            .arg(generation)
            .arg(format!("{}|{epoch}", gathered.version))
            .arg(duration_millis(self.ctx.keys().ttl(TtlName::Participants)))
            .arg(&gathered.users[..]);
        let kept: redis::RedisResult<bool> = call.run(&self.ctx.store().idempotent()).await;
        if let Err(error) = kept {
            tracing::debug!(%error, "cannot cache the participants");
        }
    }

    fn script_keys(&self, conversation: &ConversationId) -> [crate::keys::Key; 3] {
        let keys = self.ctx.keys();
        [
            keys.membership_generation(conversation),
            keys.participants(conversation),
            keys.participants_version(conversation),
        ]
    }
}
