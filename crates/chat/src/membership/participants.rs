//! Who is in a conversation, from the node's memory, the store's set, or the rows.
//!
//! Always true: an answer for a `members_version` is what the rows said at that version or a later one, whatever the store
//! holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parlor_store::{Script, script};
use quick_cache::Weighter;
use quick_cache::sync::Cache as Memory;
use tokio::sync::watch;

use super::flights::{Flights, Pilot, Seat};
use super::rows;
use crate::context::{Context, millis};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;

static PARTICIPANTS: Script = script!("participants.lua");
static GATHER: Script = script!("gather.lua");

/// Members of a conversation up to which they are listed.
pub const MOST_PARTICIPANTS: usize = 1_000;
/// Conversations, and users in them, that a node remembers.
const MOST_REMEMBERED: usize = 10_000;
const MOST_USERS: u64 = 500_000;
/// Conversations whose rows are read at one time, beyond which each is asked for itself.
const MOST_FLIGHTS: usize = 10_000;

/// The members at a version of the row.
#[derive(Clone)]
struct Gathered {
    version: u64,
    users: Arc<[UserId]>,
}

#[derive(Clone)]
struct ByUsers;

impl Weighter<ConversationId, Gathered> for ByUsers {
    fn weight(&self, _: &ConversationId, gathered: &Gathered) -> u64 {
        gathered.users.len() as u64 + 1
    }
}

/// The participants, as one node asks for them.
pub(crate) struct Participants {
    ctx: Context,
    database: Database,
    epoch: watch::Receiver<u64>,
    memory: Memory<ConversationId, Gathered, ByUsers>,
    flights: Flights<ConversationId, Gathered>,
    row_reads: AtomicU64,
}

impl Participants {
    pub(crate) fn new(ctx: Context, database: Database) -> Self {
        Self {
            epoch: ctx.store().epoch(),
            memory: Memory::with_weighter(MOST_REMEMBERED, MOST_USERS, ByUsers),
            flights: Flights::new(MOST_FLIGHTS),
            row_reads: AtomicU64::new(0),
            ctx,
            database,
        }
    }

    /// How often rows were read to answer.
    pub(crate) fn row_reads(&self) -> u64 {
        self.row_reads.load(Ordering::Relaxed)
    }

    /// Who is in a conversation, at this version of its members or a later one.
    pub(crate) async fn at(
        &self,
        conversation: &ConversationId,
        version: u64,
    ) -> Result<Arc<[UserId]>> {
        let fresh = |gathered: &Gathered| gathered.version >= version;
        if let Some(known) = self.memory.get(conversation).filter(fresh) {
            return Ok(known.users);
        }
        Box::pin(self.find(conversation, version)).await
    }

    async fn find(&self, conversation: &ConversationId, version: u64) -> Result<Arc<[UserId]>> {
        let fresh = |gathered: &Gathered| gathered.version >= version;
        let gathered = match self.flights.board(conversation) {
            Seat::Passenger(passenger) => passenger.arrive().await.filter(fresh),
            Seat::Pilot(pilot) => Some(self.gather(conversation, version, Some(pilot)).await?),
            Seat::None => None,
        };
        let gathered = match gathered {
            Some(gathered) => gathered,
            None => self.gather(conversation, version, None).await?,
        };
        Ok(gathered.users)
    }

    /// Fills the store's set, which is missing or shows another version than this one.
    pub(crate) async fn refill(&self, conversation: &ConversationId, version: u64) -> Result<()> {
        match self.flights.board(conversation) {
            Seat::Pilot(pilot) => {
                let gathered = self.gather(conversation, version, Some(pilot)).await;
                gathered.map(drop)
            }
            // Somebody fills it, or all are busy: the next message asks again.
            Seat::Passenger(_) | Seat::None => Ok(()),
        }
    }

    async fn gather(
        &self,
        conversation: &ConversationId,
        version: u64,
        pilot: Option<Pilot<'_, ConversationId, Gathered>>,
    ) -> Result<Gathered> {
        let epoch = *self.epoch.borrow();
        let stored = match self.stored(conversation, version, epoch).await {
            Ok(stored) => Some(stored),
            Err(error) if error.is_away() => None,
            Err(error) => return Err(error),
        };
        let gathered = match stored {
            Some((_, users)) if !users.is_empty() && *self.epoch.borrow() == epoch => Gathered {
                version,
                users: users.into(),
            },
            stored => {
                let gathered = self.rows(conversation).await?;
                if let Some((generation, _)) = stored {
                    self.keep(conversation, &generation, &gathered, epoch).await;
                }
                gathered
            }
        };
        self.memory.insert(conversation.clone(), gathered.clone());
        if let Some(pilot) = pilot {
            pilot.land(gathered.clone());
        }
        Ok(gathered)
    }

    /// The generation, and the users if the store's set shows this version.
    async fn stored(
        &self,
        conversation: &ConversationId,
        version: u64,
        epoch: u64,
    ) -> Result<(String, Vec<UserId>)> {
        let call = PARTICIPANTS.keys(&self.names(conversation)[..]);
        let call = call.arg(format!("{version}|{epoch}"));
        let reply: Vec<String> = call.run(&self.ctx.store().repeatable()).await?;
        let mut reply = reply.into_iter();
        let generation = reply.next().unwrap_or_default();
        let users = reply.map(UserId::new);
        let users: std::result::Result<Vec<_>, _> = users.collect();
        // Somebody else wrote to the set: the rows decide.
        let mut users = users.unwrap_or_default();
        users.sort_unstable();
        Ok((generation, users))
    }

    async fn rows(&self, conversation: &ConversationId) -> Result<Gathered> {
        self.row_reads.fetch_add(1, Ordering::Relaxed);
        let most = MOST_PARTICIPANTS + 1;
        let found = rows::participants(&self.database, conversation, most).await?;
        let (version, users) = found.unwrap_or_default();
        if users.len() > MOST_PARTICIPANTS {
            return Err(Error::TooMany {
                what: "participants",
                given: users.len(),
                most: MOST_PARTICIPANTS,
            });
        }
        Ok(Gathered {
            version,
            users: users.into(),
        })
    }

    async fn keep(
        &self,
        conversation: &ConversationId,
        generation: &str,
        gathered: &Gathered,
        epoch: u64,
    ) {
        let call = GATHER
            .keys(&self.names(conversation)[..])
            .arg(generation)
            .arg(format!("{}|{epoch}", gathered.version))
            .arg(millis(self.ctx.keys().ttl(TtlName::Participants)))
            .arg(&gathered.users[..]);
        let kept: redis::RedisResult<bool> = call.run(&self.ctx.store().repeatable()).await;
        if let Err(error) = kept {
            tracing::debug!(%error, "cannot keep the participants");
        }
    }

    fn names(&self, conversation: &ConversationId) -> [crate::keys::Key; 3] {
        let keys = self.ctx.keys();
        [
            keys.membership_generation(conversation),
            keys.participants(conversation),
            keys.participants_version(conversation),
        ]
    }
}
