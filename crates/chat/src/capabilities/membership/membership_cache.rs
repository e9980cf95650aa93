//! Cached answers to "is this user a member", in the store.
//!
//! Invariants:
//! 1. A cached answer is used only if it was checked in the current store epoch. A store that was restored from old
//!    data therefore answers nothing.
//! 2. An answer is cached only if the members did not change between the read of the row and the write to the cache.
//! 3. A follower gets the leader's answer only if the follower joined before the answer was verified as still true.
//! 4. While the store is unavailable, the answer is read from the rows.

use std::sync::atomic::{AtomicU64, Ordering};

use parlor_store::{LuaScript, script};
use tokio::sync::watch;

use super::rows;
use crate::api::error::Result;
use crate::context::{ChatContext, duration_millis};
use crate::database::Database;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;
use crate::single_flight::{FlightLeader, FlightRole, SingleFlight};

static CACHE_MEMBERSHIP: LuaScript = script!("scripts/cache_membership.lua");

/// Maximum number of concurrent single-flight loads; further callers read the row themselves.
const MAX_FLIGHTS: usize = 10_000;
/// Maximum number of attempts with the cache before the row is read directly: members can change faster than an answer
/// is cached.
const MAX_CACHE_ATTEMPTS: usize = 4;

type MembershipKey = (ConversationId, UserId);

/// Membership cache as one node uses it.
pub(crate) struct MembershipCache {
    ctx: ChatContext,
    database: Database,
    epoch: watch::Receiver<u64>,
    single_flight: SingleFlight<MembershipKey, bool>,
    misses: AtomicU64,
}

/// Result of a cache lookup.
struct CacheLookup {
    /// Generation of the conversation; empty if there is none.
    generation: String,
    /// Cached answer, if it is valid in the current epoch.
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

    /// Number of row reads.
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

    /// Loads the answer as the leader of a flight, and caches it.
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
        // Another caller has cached it. Followers may have joined later than that, so they look it up themselves.
        if let Some(answer) = look.answer {
            return Ok(answer);
        }
        let answer = self.read_row(question).await?;
        // A caller that joins after the cache write may come after a newer change, so the flight is closed before the
        // write.
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
        // The epoch is read after the reply: if the store was replaced in between, the epoch has increased by now.
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

    /// Caches an answer; false if the members may have changed since the generation was read.
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
