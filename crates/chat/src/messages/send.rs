//! Sending a message.
//!
//! Always true:
//! 1. The acknowledgement means: on disk. What follows the commit is waited for a short time only ([`apply`](super::apply)).
//! 2. The row decides who may write, and whether it is a repetition. Neither takes a place of the rate.
//! 3. Very many wait for their commit at a time, so what waits is small: what is done before, mostly at once, and what is
//!    seldom done at all is boxed.
//! 4. From the write on a message goes its way by itself: a caller who gives up leaves nothing half-done. So many are under
//!    way at most; who comes then waits.

use std::sync::Arc;

use redis::{Cmd, Pipeline};

use super::content::{Content, check_client_id};
use super::owed::Step;
use super::rows;
use super::writer::{Draft, Queued, Ticket};
use super::{Message, Messages};
use crate::access::Caller;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::limits::Verdict;
use crate::ticking::told;

/// A message that somebody wants to send.
#[derive(Debug, Clone, Default)]
pub struct NewMessage {
    /// The text.
    pub content: String,
    /// What is added to it: a JSON object.
    pub metadata: Option<serde_json::Value>,
    /// What the client calls it, so that a repetition is not a second message.
    pub client_id: Option<String>,
}

/// A message that is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The message.
    pub message: Message,
    /// It was sent before, with the same `client_id`.
    pub repeated: bool,
}

impl Messages {
    /// Sends a message.
    pub async fn send(
        &self,
        caller: &Caller,
        conversation: &ConversationId,
        new: NewMessage,
    ) -> Result<Sent> {
        let sender = caller.user()?;
        let begun = Box::pin(self.begin(caller, sender, conversation, new)).await?;
        let (queued, counted) = match begun {
            Begun::Queued(queued, counted) => (queued, counted),
            Begun::Before(first) => return Ok(*first),
        };
        let error = match queued.written().await {
            Ok(written) => {
                return Ok(Sent {
                    message: written.message,
                    repeated: written.repeated,
                });
            }
            Err(error) => error,
        };
        Box::pin(self.failed(conversation, sender, counted, &error)).await;
        Err(error)
    }

    /// Checks a message, takes a place of the rate and queues it.
    async fn begin(
        &self,
        caller: &Caller,
        sender: &UserId,
        conversation: &ConversationId,
        new: NewMessage,
    ) -> Result<Begun> {
        caller.may_write()?;
        let content = Content::check(new.content, new.metadata.as_ref(), &self.options)?;
        new.client_id.as_deref().map_or(Ok(()), check_client_id)?;
        let counted = match self.admit(conversation, sender).await? {
            Admission::Counted => true,
            Admission::Uncounted => false,
            Admission::Refused { retry_after_ms } => {
                let client_id = new.client_id.as_deref();
                let first = Box::pin(self.first(conversation, sender, client_id)).await?;
                let first = first.map(|first| Begun::Before(Box::new(first)));
                return first.ok_or(Error::RateLimited { retry_after_ms });
            }
        };
        let at = self.ctx.now();
        let draft = Draft {
            id: at.uuid(),
            conversation: conversation.clone(),
            sender: sender.clone(),
            sender_role: caller.role,
            content: content.text,
            metadata: content.metadata,
            client_id: new.client_id,
            mentions: content.mentions,
            at,
        };
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let epoch = self.epoch();
        let queued = self.writer.queue(draft, |answer| {
            let mut ticket = Ticket::new(answer);
            (ticket.epoch, ticket.counted, ticket.place) = (epoch, counted, place);
            ticket
        });
        match queued.await {
            Ok(queued) => Ok(Begun::Queued(queued, counted)),
            Err(error) => {
                self.failed(conversation, sender, counted, &error).await;
                Err(error)
            }
        }
    }

    /// Asks in one round trip whether the sender is known to be no member, and takes a place of their rate.
    async fn admit(&self, conversation: &ConversationId, sender: &UserId) -> Result<Admission> {
        // Not GET, which fails where somebody else wrote something else.
        let mut cached = Cmd::with_capacity(2, 128);
        cached
            .arg("MGET")
            .arg(self.ctx.keys().membership(conversation, sender));
        let mut asked = Pipeline::with_capacity(2);
        asked
            .add_command(cached)
            .add_command(self.limits.message_call(sender, self.options.rate).cmd());
        let answered = asked.query_async(&mut self.ctx.store().clone()).await;
        let ((cached,), verdict): ((Option<String>,), Verdict) = match answered.map_err(Error::from)
        {
            Ok(answered) => answered,
            // Neither one that is away nor one that is full can count.
            Err(error) => {
                let cannot = error.is_away() || matches!(error, Error::StoreFull(_));
                return match cannot && self.options.without_store {
                    true => Ok(Admission::Uncounted),
                    false => Err(error),
                };
            }
        };
        let unknown = cached.is_some_and(|cached| cached.starts_with('0'));
        if unknown {
            let member = self.conversations.member(conversation, sender);
            if Box::pin(member).await?.is_none() {
                if verdict.allowed {
                    Box::pin(self.give_back(sender)).await;
                }
                return Err(Error::NotAMember(conversation.clone()));
            }
        }
        Ok(match verdict.allowed {
            true => Admission::Counted,
            false => Admission::Refused {
                retry_after_ms: verdict.retry_after_ms.unwrap_or_default(),
            },
        })
    }

    pub(super) async fn give_back(&self, sender: &UserId) {
        told(
            "give a place of the rate back",
            &self.limits.give_back(sender).await,
        );
    }

    /// The message that the sender has sent by this name.
    async fn first(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
        client_id: Option<&str>,
    ) -> Result<Option<Sent>> {
        let Some(client_id) = client_id else {
            return Ok(None);
        };
        let row = rows::by_client_id(&self.database, conversation, sender, client_id).await?;
        Ok(row.map(|row| Sent {
            message: row.into_message(),
            repeated: true,
        }))
    }

    /// Puts right what a message has done that could not be written.
    async fn failed(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
        counted: bool,
        error: &Error,
    ) {
        if matches!(error, Error::DatabaseUnavailable(_)) {
            // It may be there all the same: a commit that broke off has told nobody.
            self.owed.note(Step::Messages(conversation.clone()));
        }
        if counted {
            self.give_back(sender).await;
        }
    }
}

/// What became of a message before its commit.
enum Begun {
    /// It waits for it. Whether it took a place of the rate.
    Queued(Queued, bool),
    /// It was sent before.
    Before(Box<Sent>),
}

/// Whether a message may be sent.
enum Admission {
    /// Yes, and it took a place of the rate.
    Counted,
    /// Yes, and nobody could count it.
    Uncounted,
    /// Not now.
    Refused { retry_after_ms: u64 },
}
