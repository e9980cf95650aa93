//! Cached answers to "is this user a member", in the store.
//!
//! Invariants:
//! 1. The documented key is used only if it agrees with the answer that Parlor checked in the current store epoch, which
//!    an internal key holds. A store that was restored from old data therefore answers nothing, and neither does a key
//!    that another service has written.
//! 2. An answer is cached only if the members did not change between the read of the row and the write to the cache.
//! 3. A follower gets the leader's answer only if the follower joined before the answer was verified as still true.
//! 4. While the store is unavailable, the answer is read from the rows.
//! 5. The documented key of a conversation without a row is another service's: Parlor does not write it.

use std::sync::atomic::{AtomicU64, Ordering};

use parlor_store::{LuaScript, script};

use super::{Conversations, member_rows};
use crate::api::error::Result;
use crate::clock::duration_millis;
use crate::ids::{ConversationId, UserId};
use crate::keys::{Key, TtlName};
use crate::single_flight::{FlightLeader, FlightRole, SingleFlight};

static CACHE_MEMBERSHIP: LuaScript = script!("scripts/cache_membership.lua");

/// Maximum number of concurrent single-flight loads; further callers read the row themselves.
const MAX_FLIGHTS: usize = 10_000;
/// Maximum number of attempts with the cache before the row is read directly: members can change faster than an answer
/// is cached.
const MAX_CACHE_ATTEMPTS: usize = 4;

type MembershipKey = (ConversationId, UserId);

/// Row reads for the membership cache on this node.
pub(super) struct MembershipLoads {
    single_flight: SingleFlight<MembershipKey, bool>,
    row_reads: AtomicU64,
}

impl Default for MembershipLoads {
    fn default() -> Self {
        Self {
            single_flight: SingleFlight::new(MAX_FLIGHTS),
            row_reads: AtomicU64::new(0),
        }
    }
}

impl MembershipLoads {
    /// Number of row reads.
    pub(super) fn row_reads(&self) -> u64 {
        self.row_reads.load(Ordering::Relaxed)
    }
}

/// Answer of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckedAnswer {
    /// The user is not a member.
    NotMember,
    /// The user is a member.
    Member,
    /// The conversation does not exist.
    UnknownConversation,
}

impl CheckedAnswer {
    /// Distance of the numbers of two epochs.
    const CODES: u64 = 4;

    fn from_row(row: Option<bool>) -> Self {
        match row {
            Some(true) => Self::Member,
            Some(false) => Self::NotMember,
            None => Self::UnknownConversation,
        }
    }

    /// Number of an answer that was checked in an epoch, as in the internal key.
    fn encode(self, epoch: u64) -> u64 {
        let code = match self {
            Self::NotMember => 0,
            Self::Member => 1,
            Self::UnknownConversation => 2,
        };
        epoch.saturating_mul(Self::CODES) + code
    }

    /// Value of the documented key.
    fn documented(self) -> Option<&'static str> {
        match self {
            Self::NotMember => Some("0"),
            Self::Member => Some("1"),
            Self::UnknownConversation => None,
        }
    }

    /// The answer in the keys, if it was checked in this epoch.
    fn from_cache(checked: Option<u64>, documented: Option<&str>, epoch: u64) -> Option<Self> {
        let all = [Self::NotMember, Self::Member, Self::UnknownConversation];
        let mut all = all.into_iter();
        let answer = all.find(|answer| checked == Some(answer.encode(epoch)))?;
        let expected = answer.documented();
        (expected.is_none() || expected == documented).then_some(answer)
    }
}

/// Result of a cache lookup.
struct CacheLookup {
    /// Generation of the conversation; empty if there is none.
    generation: String,
    /// Cached answer, if it is valid in the current epoch.
    answer: Option<bool>,
}

impl Conversations {
    /// Whether a user is a member. A conversation that does not exist has no members.
    pub async fn is_member(&self, conversation: &ConversationId, user: &UserId) -> Result<bool> {
        // Boxed, because very many calls wait for a membership at the same time.
        Box::pin(self.find_membership((conversation.clone(), user.clone()))).await
    }

    async fn find_membership(&self, key: MembershipKey) -> Result<bool> {
        for _ in 0..MAX_CACHE_ATTEMPTS {
            match self.lookup_membership(&key).await {
                Ok(CacheLookup {
                    answer: Some(answer),
                    ..
                }) => return Ok(answer),
                Ok(_) => {}
                Err(error) if error.is_store_outage() => break,
                Err(error) => return Err(error),
            }
            match self.membership_loads.single_flight.join(&key) {
                FlightRole::Leader(leader) => return self.load_membership(&key, leader).await,
                FlightRole::Follower(follower) => {
                    if let Some(answer) = follower.wait().await {
                        return Ok(answer);
                    }
                }
                FlightRole::Bypass => break,
            }
        }
        self.read_membership_row(&key).await
    }

    /// Loads the answer as the leader of a flight, and caches it.
    async fn load_membership(
        &self,
        key: &MembershipKey,
        mut leader: FlightLeader<'_, MembershipKey, bool>,
    ) -> Result<bool> {
        let epoch = self.ctx.store_epoch();
        let cached = match self.lookup_membership(key).await {
            Ok(cached) => cached,
            Err(error) if error.is_store_outage() => {
                return self.read_membership_row(key).await;
            }
            Err(error) => return Err(error),
        };
        // Another caller has cached it. Followers may have joined later than that, so they look it up themselves.
        if let Some(answer) = cached.answer {
            return Ok(answer);
        }
        let checked = self.read_checked_answer(key).await?;
        let answer = checked == CheckedAnswer::Member;
        // A caller that joins after the cache write may come after a newer change, so the flight is closed before the
        // write.
        leader.close();
        let written = self.cache_membership(key, &cached.generation, checked, epoch);
        match written.await {
            Ok(true) if self.ctx.store_epoch() == epoch => leader.complete(answer),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot cache a membership"),
        }
        Ok(answer)
    }

    async fn lookup_membership(&self, key: &MembershipKey) -> Result<CacheLookup> {
        let mut cmd = redis::cmd("MGET");
        cmd.arg(&self.membership_keys(key));
        let (generation, answer, checked): (Option<String>, Option<String>, Option<u64>) =
            cmd.query_async(&mut self.ctx.store().clone()).await?;
        // The epoch is read after the reply: if the store was replaced in between, the epoch has increased by now.
        let epoch = self.ctx.store_epoch();
        let answer = CheckedAnswer::from_cache(checked, answer.as_deref(), epoch);
        Ok(CacheLookup {
            generation: generation.unwrap_or_default(),
            answer: answer.map(|answer| answer == CheckedAnswer::Member),
        })
    }

    /// Caches an answer; false if the members may have changed since the generation was read.
    async fn cache_membership(
        &self,
        key: &MembershipKey,
        generation: &str,
        answer: CheckedAnswer,
        epoch: u64,
    ) -> Result<bool> {
        let call = CACHE_MEMBERSHIP
            .keys(&self.membership_keys(key))
            .arg(generation)
            .arg(answer.documented().unwrap_or_default())
            .arg(answer.encode(epoch))
            .arg(duration_millis(self.ctx.keys().ttl(TtlName::Membership)));
        Ok(call.run(&self.ctx.store().idempotent()).await?)
    }

    /// Keys of the generation, of the answer and of its check.
    fn membership_keys(&self, (conversation, user): &MembershipKey) -> [Key; 3] {
        let keys = self.ctx.keys();
        [
            keys.membership_generation(conversation),
            keys.membership(conversation, user),
            keys.membership_epoch(conversation, user),
        ]
    }

    async fn read_membership_row(&self, key: &MembershipKey) -> Result<bool> {
        let checked = self.read_checked_answer(key).await?;
        Ok(checked == CheckedAnswer::Member)
    }

    async fn read_checked_answer(
        &self,
        (conversation, user): &MembershipKey,
    ) -> Result<CheckedAnswer> {
        let reads = &self.membership_loads.row_reads;
        reads.fetch_add(1, Ordering::Relaxed);
        let row = member_rows::is_member(&self.database, conversation, user).await?;
        Ok(CheckedAnswer::from_row(row))
    }
}
