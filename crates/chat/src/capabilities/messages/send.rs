//! Sending a message.
//!
//! Invariants:
//! 1. A reply means that the message is committed. The reply waits at most `APPLY_WAIT_TIMEOUT` for the store
//!    ([`apply`](super::apply)).
//! 2. The database decides whether the sender is a member and whether the message is a duplicate (same `client_id`).
//!    Refused messages and duplicates do not use up the sender's rate limit.
//! 3. Thousands of senders can wait for a commit at once, so the waiting future must stay small. The code before the
//!    wait and the rare paths are boxed.
//! 4. A queued message is written and applied even if the caller is cancelled. At most `MAX_IN_FLIGHT` sends and edits
//!    run at a time on a node; further callers wait for a permit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::{Cmd, Pipeline};

use super::rows;
use super::validate::{ValidatedContent, validate_client_id};
use super::writer::{MessageDraft, QueuedMessage, SendState};
use super::{Messages, NewMessage, SentMessage};
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::ids::{ConversationId, UserId};
use crate::limits::{RateLimitDecision, is_foreign_key};

impl Messages {
    /// Sends a message and waits for its commit.
    pub async fn send(
        &self,
        caller: &Caller,
        conversation: &ConversationId,
        new: NewMessage,
    ) -> Result<SentMessage> {
        let sender = caller.require_user()?;
        let progress = Box::pin(self.validate_and_queue(caller, sender, conversation, new)).await?;
        let (queued, counted) = match progress {
            SendProgress::Queued(queued, counted) => (queued, counted),
            SendProgress::Duplicate(first) => return Ok(*first),
        };
        match queued.wait().await {
            Ok(written) => Ok(SentMessage {
                message: written.message,
                is_duplicate: written.is_duplicate,
            }),
            Err(error) => {
                if counted {
                    Box::pin(self.refund_rate_limit(sender)).await;
                }
                Err(error)
            }
        }
    }

    /// Validates a message, counts it in the rate limit and queues it for the writer.
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
        let permit = Arc::clone(&self.in_flight_permits).acquire_owned().await;
        let in_flight = self.in_flight.begin();
        self.sent_since_write.store(true, Ordering::Relaxed);
        // The id gets the time after the message has begun, so the watermark stays below it.
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
        let state = SendState {
            epoch_before_write: self.ctx.store_epoch(),
            counted_by_rate_limit: counted,
            permit: permit.ok(),
            in_flight,
        };
        match self.writer.queue(draft, state).await {
            Ok(queued) => Ok(SendProgress::Queued(queued, counted)),
            Err(error) => {
                if counted {
                    self.refund_rate_limit(sender).await;
                }
                Err(error)
            }
        }
    }

    /// Looks up the sender in the membership cache and counts the message in the rate limit, in one round trip.
    async fn check_rate_limit(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
    ) -> Result<RateLimitOutcome> {
        // GET fails if the key has a foreign type; MGET returns nil for it.
        let mut cached = Cmd::with_capacity(2, 128);
        cached
            .arg("MGET")
            .arg(self.ctx.keys().membership(conversation, sender));
        let count = self
            .limits
            .count_message_call(sender, self.options.max_messages_per_window);
        let mut pipe = Pipeline::with_capacity(2);
        pipe.add_command(cached).add_command(count.cmd());
        let reply = pipe.query_async(&mut self.ctx.store().clone()).await;
        let ((cached,), decision): ((Option<String>,), RateLimitDecision) = match reply
            .map_err(Error::from)
        {
            Ok(reply) => reply,
            // A store that is unavailable or full cannot count messages.
            Err(error)
                if self.options.accept_without_store
                    && (error.is_store_unavailable() || matches!(error, Error::StoreFull(_))) =>
            {
                return Ok(RateLimitOutcome::NotCounted);
            }
            // The row of the member decides who may write.
            Err(Error::StoreRejected(error)) if is_foreign_key(&error) => {
                let max = self.options.max_messages_per_window;
                let decision = self.limits.count_message_locally(sender, max)?;
                return Ok(match decision.allowed {
                    true => RateLimitOutcome::NotCounted,
                    false => RateLimitOutcome::Limited {
                        retry_after_ms: decision.retry_after_ms.unwrap_or_default(),
                    },
                });
            }
            Err(error) => return Err(error),
        };
        let cached_as_non_member = cached.is_some_and(|cached| cached.starts_with('0'));
        if cached_as_non_member {
            let member = self.conversations.find_member(conversation, sender);
            if Box::pin(member).await?.is_none() {
                if decision.allowed {
                    Box::pin(self.refund_rate_limit(sender)).await;
                }
                return Err(Error::NotAMember(conversation.clone()));
            }
        }
        Ok(match decision.allowed {
            true => RateLimitOutcome::Counted,
            false => RateLimitOutcome::Limited {
                retry_after_ms: decision.retry_after_ms.unwrap_or_default(),
            },
        })
    }

    pub(super) async fn refund_rate_limit(&self, sender: &UserId) {
        log_failure(
            "refund the rate limit of a sender",
            &self.limits.refund_message(sender).await,
        );
    }

    /// Finds the sender's message with this client id.
    async fn find_duplicate(
        &self,
        conversation: &ConversationId,
        sender: &UserId,
        client_id: Option<&str>,
    ) -> Result<Option<SentMessage>> {
        let Some(client_id) = client_id else {
            return Ok(None);
        };
        let row = rows::find_by_client_id(&self.database, conversation, sender, client_id).await?;
        Ok(row.map(|row| SentMessage {
            message: row.into_message(),
            is_duplicate: true,
        }))
    }
}

/// Result of `validate_and_queue`.
enum SendProgress {
    /// The message waits for its commit. The flag is true if the rate limit counted it.
    Queued(QueuedMessage, bool),
    /// The message was sent before.
    Duplicate(Box<SentMessage>),
}

/// Result of the rate limit check.
enum RateLimitOutcome {
    /// Allowed and counted.
    Counted,
    /// Allowed without counting, because the store is unavailable or full.
    NotCounted,
    /// Above the limit.
    Limited { retry_after_ms: u64 },
}
