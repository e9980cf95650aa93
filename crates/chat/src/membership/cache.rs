//! Whether somebody is a member, from the store's cache.
//!
//! Always true:
//! 1. An answer is believed only if it was checked in the epoch of the store that holds now: a store that came back with old
//!    data answers nothing.
//! 2. An answer is kept only if no change of members came between the reading of the row and the keeping.
//! 3. Whoever takes the answer to somebody else's question began to wait before it was seen to be still true.
//! 4. While the store is away, the rows answer.

use std::sync::atomic::{AtomicU64, Ordering};

use parlor_store::{LuaScript, script};
use tokio::sync::watch;

use super::flights::{FlightLeader, FlightRole, SingleFlight};
use super::rows;
use crate::context::{ChatContext, duration_millis};
use crate::database::Database;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;

static CACHE_MEMBERSHIP: LuaScript = script!("fill.lua");

/// Questions that are answered from rows at one time, beyond which each is asked for itself.
const MAX_FLIGHTS: usize = 10_000;
/// How often an answer is sought in the cache before the row alone decides: changes may come faster than answers.
const MAX_CACHE_ATTEMPTS: usize = 4;

type MembershipKey = (ConversationId, UserId);

/// The answers about membership, as one node asks for them.
pub(crate) struct MembershipCache {
    ctx: ChatContext,
    database: Database,
    epoch: watch::Receiver<u64>,
    single_flight: SingleFlight<MembershipKey, bool>,
    misses: AtomicU64,
}

/// What the store knows.
struct CacheLookup {
    /// The generation, empty if there is none.
    generation: String,
    /// The answer, if it can be believed.
    answer: Option<bool>,
}

impl MembershipCache {
    pub(crate) fn new(ctx: ChatContext, database: Database) -> Self {
        Self {
            epoch: ctx.store().epoch(),
            single_flight: SingleFlight::new(MAX_FLIGHTS),
            misses: AtomicU64::new(0),
            ctx,
            database,
        }
    }

    /// How often a row was read to answer.
    pub(crate) fn row_reads(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Whether a user is a member.
    pub(crate) async fn is_member(
        &self,
        conversation: &ConversationId,
        user: &UserId,
    ) -> Result<bool> {
        let question = (conversation.clone(), user.clone());
        for _ in 0..MAX_CACHE_ATTEMPTS {
            match self.lookup(&question).await {
                Ok(CacheLookup {
                    answer: Some(answer),
                    ..
                }) => return Ok(answer),
                Ok(_) => {}
                Err(error) if error.is_store_unavailable() => break,
                Err(error) => return Err(error),
            }
            match self.single_flight.join(&question) {
                FlightRole::Leader(pilot) => return self.load_as_leader(&question, pilot).await,
                FlightRole::Follower(passenger) => {
                    if let Some(answer) = passenger.wait().await {
                        return Ok(answer);
                    }
                }
                FlightRole::Bypass => break,
            }
        }
        self.read_row(&question).await
    }

    /// Finds the answer for everybody aboard, and keeps it.
    async fn load_as_leader(
        &self,
        question: &MembershipKey,
        mut pilot: FlightLeader<'_, MembershipKey, bool>,
    ) -> Result<bool> {
        let epoch = *self.epoch.borrow();
        let look = match self.lookup(question).await {
            Ok(look) => look,
            Err(error) if error.is_store_unavailable() => return self.read_row(question).await,
            Err(error) => return Err(error),
        };
        // Somebody else has just kept it; whoever is aboard may have come later than that, and looks for themself.
        if let Some(answer) = look.answer {
            return Ok(answer);
        }
        let answer = self.read_row(question).await?;
        // Whoever comes from here on may come after a change that follows the keeping.
        pilot.close();
        match self
            .store_if_unchanged(question, &look.generation, answer, epoch)
            .await
        {
            Ok(true) if *self.epoch.borrow() == epoch => pilot.complete(answer),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot cache a membership"),
        }
        Ok(answer)
    }

    async fn lookup(&self, (conversation, user): &MembershipKey) -> Result<CacheLookup> {
        let keys = self.ctx.keys();
        let mut cmd = redis::cmd("MGET");
        cmd.arg(keys.membership_generation(conversation));
        cmd.arg(keys.membership(conversation, user));
        cmd.arg(keys.membership_epoch(conversation, user));
        let (generation, answer, checked): (Option<String>, Option<String>, Option<u64>) =
            cmd.query_async(&mut self.ctx.store().clone()).await?;
        // Asked after the reply: a store that was replaced in between has raised it by now.
        let believed = checked == Some(*self.epoch.borrow());
        let answer = answer.filter(|_| believed);
        Ok(CacheLookup {
            generation: generation.unwrap_or_default(),
            answer: answer.and_then(|answer| match answer.as_str() {
                "1" => Some(true),
                "0" => Some(false),
                _ => None,
            }),
        })
    }

    /// Keeps an answer; false if the members may have changed since the generation was seen.
    async fn store_if_unchanged(
        &self,
        (conversation, user): &MembershipKey,
        generation: &str,
        answer: bool,
        epoch: u64,
    ) -> Result<bool> {
        let keys = self.ctx.keys();
        let names = [
            keys.membership_generation(conversation),
            keys.membership(conversation, user),
            keys.membership_epoch(conversation, user),
        ];
        let call = CACHE_MEMBERSHIP
            .keys(&names)
            .arg(generation)
            .arg(u8::from(answer))
            .arg(epoch)
            .arg(duration_millis(keys.ttl(TtlName::Membership)));
        Ok(call.run(&self.ctx.store().idempotent()).await?)
    }

    async fn read_row(&self, (conversation, user): &MembershipKey) -> Result<bool> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        rows::is_member(&self.database, conversation, user).await
    }
}
