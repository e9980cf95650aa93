//! Whether somebody is a member, from the store's cache.
//!
//! Always true:
//! 1. An answer is believed only if it was checked in the epoch of the store that holds now: a store that came back with old
//!    data answers nothing.
//! 2. An answer is kept only if no change of members came between the reading of the row and the keeping.
//! 3. Whoever takes the answer to somebody else's question began to wait before it was seen to be still true.
//! 4. While the store is away, the rows answer.

use std::sync::atomic::{AtomicU64, Ordering};

use parlor_store::{Script, script};
use tokio::sync::watch;

use super::flights::{Flights, Pilot, Seat};
use super::rows;
use crate::context::{Context, millis};
use crate::database::Database;
use crate::error::Result;
use crate::ids::{ConversationId, UserId};
use crate::keys::TtlName;

static FILL: Script = script!("fill.lua");

/// Questions that are answered from rows at one time, beyond which each is asked for itself.
const MOST_FLIGHTS: usize = 10_000;
/// How often an answer is sought in the cache before the row alone decides: changes may come faster than answers.
const TRIES: usize = 4;

type Question = (ConversationId, UserId);

/// The answers about membership, as one node asks for them.
pub(crate) struct Cache {
    ctx: Context,
    database: Database,
    epoch: watch::Receiver<u64>,
    flights: Flights<Question, bool>,
    row_reads: AtomicU64,
}

/// What the store knows.
struct Look {
    /// The generation, empty if there is none.
    generation: String,
    /// The answer, if it can be believed.
    answer: Option<bool>,
}

impl Cache {
    pub(crate) fn new(ctx: Context, database: Database) -> Self {
        Self {
            epoch: ctx.store().epoch(),
            flights: Flights::new(MOST_FLIGHTS),
            row_reads: AtomicU64::new(0),
            ctx,
            database,
        }
    }

    /// How often a row was read to answer.
    pub(crate) fn row_reads(&self) -> u64 {
        self.row_reads.load(Ordering::Relaxed)
    }

    /// Whether a user is a member.
    pub(crate) async fn is_member(
        &self,
        conversation: &ConversationId,
        user: &UserId,
    ) -> Result<bool> {
        let question = (conversation.clone(), user.clone());
        for _ in 0..TRIES {
            match self.look(&question).await {
                Ok(Look {
                    answer: Some(answer),
                    ..
                }) => return Ok(answer),
                Ok(_) => {}
                Err(error) if error.is_away() => break,
                Err(error) => return Err(error),
            }
            match self.flights.board(&question) {
                Seat::Pilot(pilot) => return self.answer(&question, pilot).await,
                Seat::Passenger(passenger) => {
                    if let Some(answer) = passenger.arrive().await {
                        return Ok(answer);
                    }
                }
                Seat::None => break,
            }
        }
        self.row(&question).await
    }

    /// Finds the answer for everybody aboard, and keeps it.
    async fn answer(
        &self,
        question: &Question,
        mut pilot: Pilot<'_, Question, bool>,
    ) -> Result<bool> {
        let epoch = *self.epoch.borrow();
        let look = match self.look(question).await {
            Ok(look) => look,
            Err(error) if error.is_away() => return self.row(question).await,
            Err(error) => return Err(error),
        };
        // Somebody else has just kept it; whoever is aboard may have come later than that, and looks for themself.
        if let Some(answer) = look.answer {
            return Ok(answer);
        }
        let answer = self.row(question).await?;
        // Whoever comes from here on may come after a change that follows the keeping.
        pilot.close();
        match self.keep(question, &look.generation, answer, epoch).await {
            Ok(true) if *self.epoch.borrow() == epoch => pilot.land(answer),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "cannot keep an answer about membership"),
        }
        Ok(answer)
    }

    async fn look(&self, (conversation, user): &Question) -> Result<Look> {
        let keys = self.ctx.keys();
        let mut cmd = redis::cmd("MGET");
        cmd.arg(keys.membership_generation(conversation));
        cmd.arg(keys.membership(conversation, user));
        cmd.arg(keys.membership_checked(conversation, user));
        let (generation, answer, checked): (Option<String>, Option<String>, Option<u64>) =
            cmd.query_async(&mut self.ctx.store().clone()).await?;
        // Asked after the reply: a store that was replaced in between has raised it by now.
        let believed = checked == Some(*self.epoch.borrow());
        let answer = answer.filter(|_| believed);
        Ok(Look {
            generation: generation.unwrap_or_default(),
            answer: answer.and_then(|answer| match answer.as_str() {
                "1" => Some(true),
                "0" => Some(false),
                _ => None,
            }),
        })
    }

    /// Keeps an answer; false if the members may have changed since the generation was seen.
    async fn keep(
        &self,
        (conversation, user): &Question,
        generation: &str,
        answer: bool,
        epoch: u64,
    ) -> Result<bool> {
        let keys = self.ctx.keys();
        let names = [
            keys.membership_generation(conversation),
            keys.membership(conversation, user),
            keys.membership_checked(conversation, user),
        ];
        let call = FILL
            .keys(&names)
            .arg(generation)
            .arg(u8::from(answer))
            .arg(epoch)
            .arg(millis(keys.ttl(TtlName::Membership)));
        Ok(call.run(&self.ctx.store().repeatable()).await?)
    }

    async fn row(&self, (conversation, user): &Question) -> Result<bool> {
        self.row_reads.fetch_add(1, Ordering::Relaxed);
        rows::is_member(&self.database, conversation, user).await
    }
}
