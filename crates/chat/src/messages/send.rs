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

use super::content::{ValidatedContent, validate_client_id};
use super::owed::PendingStoreUpdate;
use super::rows;
use super::writer::{MessageDraft, PendingReply, QueuedMessage};
use super::{Message, Messages};
use crate::access::Caller;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::limits::RateLimitDecision;
use crate::ticking::log_failure;

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
    pub is_duplicate: bool,
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
        let begun = Box::pin(self.validate_and_queue(caller, sender, conversation, new)).await?;
        let (queued, counted) = match begun {
            SendProgress::Queued(queued, counted) => (queued, counted),
            SendProgress::Duplicate(first) => return Ok(*first),
        };
        let error = match queued.wait().await {
            Ok(written) => {
                return Ok(Sent {
                    message: written.message,
                    is_duplicate: written.repeated,
                });
            }
            Err(error) => error,
        };
        Box::pin(self.clean_up_failed_send(conversation, sender, counted, &error)).await;
        Err(error)
    }

    /// Checks a message, takes a place of the rate and queues it.
    async fn validate_and_queue(
        &self,
        caller: &Caller,
        sender: &UserId,
        conversation: &ConversationId,
        new: NewMessage,
    ) -> Result<SendProgress> {
        caller.require_write_access()?;
        let content = ValidatedContent::new(new.content, new.metadata.as_ref(), &self.options)?;
        new.client_id
            .as_deref()
            .map_or(Ok(()), validate_client_id)?;
        let counted = match self.check_rate_limit(conversation, sender).await? {
            RateLimitOutcome::Counted => true,
            RateLimitOutcome::NotCounted => false,
            RateLimitOutcome::Limited { retry_after_ms } => {
                let client_id = new.client_id.as_deref();
                let first = Box::pin(self.find_duplicate(conversation, sender, client_id)).await?;
                let first = first.map(|first| SendProgress::Duplicate(Box::new(first)));
                return first.ok_or(Error::RateLimited { retry_after_ms });
            }
        };
        let at = self.ctx.now();
        let draft = MessageDraft {
            id: at.new_uuid_v7(),
            conversation: conversation.clone(),
            sender: sender.clone(),
            sender_role: caller.role,
            content: content.text,
            metadata: content.metadata,
            client_id: new.client_id,
            mentions: content.mentions,
            at,
        };
        let place = Arc::clone(&self.in_flight_permits)
            .acquire_owned()
            .await
            .ok();
        let epoch = self.epoch();
        let queued = self.writer.queue(draft, |answer| {
            let mut ticket = PendingReply::new(answer);
            (
                ticket.epoch_before_write,
                ticket.counted_by_rate_limit,
                ticket.permit,
            ) = (epoch, counted, place);
            ticket
        });
        match queued.await {
            Ok(queued) => Ok(SendProgress::Queued(queued, counted)),
            Err(error) => {
                self.clean_up_failed_send(conversation, sender, counted, &error)
                    .await;
                Err(error)
            }
        }
    }

    /// Asks in one round trip whether the sender is known to be no member, and takes a place of their rate.
    async fn check_rate_limit(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
    ) -> Result<RateLimitOutcome> {
        // Not GET, which fails where somebody else wrote something else.
        let mut cached = Cmd::with_capacity(2, 128);
        cached
            .arg("MGET")
            .arg(self.ctx.keys().membership(conversation, sender));
        let mut asked = Pipeline::with_capacity(2);
        asked.add_command(cached).add_command(
            self.limits
                .count_message_call(sender, self.options.rate)
                .cmd(),
        );
        let answered = asked.query_async(&mut self.ctx.store().clone()).await;
        let ((cached,), verdict): ((Option<String>,), RateLimitDecision) = match answered
            .map_err(Error::from)
        {
            Ok(answered) => answered,
            // Neither one that is away nor one that is full can count.
            Err(error) => {
                let cannot = error.is_store_unavailable() || matches!(error, Error::StoreFull(_));
                return match cannot && self.options.accept_without_store {
                    true => Ok(RateLimitOutcome::NotCounted),
                    false => Err(error),
                };
            }
        };
        let unknown = cached.is_some_and(|cached| cached.starts_with('0'));
        if unknown {
            let member = self.conversations.find_member(conversation, sender);
            if Box::pin(member).await?.is_none() {
                if verdict.allowed {
                    Box::pin(self.refund_rate_limit(sender)).await;
                }
                return Err(Error::NotAMember(conversation.clone()));
            }
        }
        Ok(match verdict.allowed {
            true => RateLimitOutcome::Counted,
            false => RateLimitOutcome::Limited {
                retry_after_ms: verdict.retry_after_ms.unwrap_or_default(),
            },
        })
    }

    pub(super) async fn refund_rate_limit(&self, sender: &UserId) {
        log_failure(
            "refund the rate limit of a sender",
            &self.limits.refund_message(sender).await,
        );
    }

    /// The message that the sender has sent by this name.
    async fn find_duplicate(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
        client_id: Option<&str>,
    ) -> Result<Option<Sent>> {
        let Some(client_id) = client_id else {
            return Ok(None);
        };
        let row = rows::find_by_client_id(&self.database, conversation, sender, client_id).await?;
        Ok(row.map(|row| Sent {
            message: row.into_message(),
            is_duplicate: true,
        }))
    }

    /// Puts right what a message has done that could not be written.
    async fn clean_up_failed_send(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
        counted: bool,
        error: &Error,
    ) {
        if matches!(error, Error::DatabaseUnavailable(_)) {
            // It may be there all the same: a commit that broke off has told nobody.
            self.retry_queue
                .push(PendingStoreUpdate::UnappliedMessages(conversation.clone()));
        }
        if counted {
            self.refund_rate_limit(sender).await;
        }
    }
}

/// What became of a message before its commit.
enum SendProgress {
    /// It waits for it. Whether it took a place of the rate.
    Queued(QueuedMessage, bool),
    /// It was sent before.
    Duplicate(Box<Sent>),
}

/// Whether a message may be sent.
enum RateLimitOutcome {
    /// Yes, and it took a place of the rate.
    Counted,
    /// Yes, and nobody could count it.
    NotCounted,
    /// Not now.
    Limited { retry_after_ms: u64 },
}
