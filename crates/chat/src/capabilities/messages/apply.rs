//! Applies committed messages to the store: recent list, frame, event, unread counters.
//!
//! ```text
//! committed ──▶ ApplyQueue ──▶ append_messages.lua ──OK──▶ applied
//!              (in seq order)       │      ▲
//!                       GAP or COLD │      │ missing messages, read from the database
//!                                   ▼      │
//!                                apply_missing
//!
//! applied, or APPLY_WAIT_TIMEOUT is over ──▶ reply to the senders; applying continues after a timeout
//! applied, but a cache is missing        ──▶ refill_missing_caches
//! store or database unavailable          ──▶ the watermark of the node stays ──▶ replay.rs
//! rejected by the store                  ──▶ outbox
//! error or timeout                       ──▶ the feeds of this node get the messages directly
//! ```
//!
//! Invariants:
//! 1. The messages of one conversation in one commit are applied together, on their own task, in `seq` order. One
//!    script call writes list, frames and events; one update of the unread counters covers all members.
//! 2. A message that the store has not published in time reaches the sockets of this node before its sender gets the
//!    reply.
//! 3. A sender receives the reply when the store has applied the message, or after a timeout (`apply_reply.rs`). The message
//!    is committed in both cases. The message stays in flight until it is applied, so a failed store update is
//!    repeated.

use super::Messages;
use super::append::{AppendBatch, AppendReply, AppendStatus};
use super::apply_queue::ApplyTurn;
use super::apply_reply::{PendingReplies, reply_when_applied};
use super::encode::{EncodedMessage, EventParticipants};
use super::in_flight::InFlightMessage;
use super::post_commit::ConversationCommit;
use super::rows::ConversationHead;
use super::writer::{CommittedMessage, WrittenMessage};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::bus::frame::BusFrameKind;
use crate::failpoint::failpoint;
use crate::ids::ConversationId;
use crate::unread::{self, SenderPosition};

/// New messages of one conversation and one commit, encoded for the store.
struct EncodedCommit {
    encoded: Vec<EncodedMessage>,
    sender_positions: Vec<SenderPosition>,
    in_flight: Vec<InFlightMessage>,
    /// State of the conversation after these messages.
    head: ConversationHead,
    /// Lowest store epoch that was seen before the messages were queued.
    epoch_before_write: u64,
}

impl Messages {
    pub(super) async fn apply_commit(&self, group: ConversationCommit) {
        let ConversationCommit {
            conversation,
            turn,
            mut committed,
        } = group;
        let duplicates: Vec<_> = committed.extract_if(.., |it| it.is_duplicate).collect();
        if !committed.is_empty() {
            self.apply_new(&conversation, turn, committed).await;
        }
        if !duplicates.is_empty() {
            Box::pin(self.apply_duplicates(&conversation, duplicates)).await;
        }
    }

    async fn apply_new(
        &self,
        conversation: &ConversationId,
        turn: ApplyTurn,
        new: Vec<CommittedMessage>,
    ) {
        let (mut new, replies) = self.encode_commit(new);
        let in_flight = std::mem::take(&mut new.in_flight);
        failpoint!(self.ctx, "message.committed");
        let applying = self.append_and_count(conversation, &new, turn);
        let deliver = || self.deliver_locally(conversation, &new);
        let (applied, permits) = reply_when_applied(replies, applying, deliver).await;
        match applied {
            Err(error) => self.finish_unapplied(conversation, in_flight, error).await,
            Ok(it) if it.list_missing || it.participants_missing => {
                let refill = self.refill_missing_caches(conversation, it, new.head.members_version);
                log_failure(
                    "refill the caches of a conversation",
                    &Box::pin(refill).await,
                );
                complete(in_flight);
            }
            Ok(_) => complete(in_flight),
        }
        drop(permits);
    }

    /// Handles messages that could not be applied. If the store is unavailable, they are dropped as unapplied, so the
    /// watermark stays below them. If the store has rejected them, the outbox repeats it.
    async fn finish_unapplied(
        &self,
        conversation: &ConversationId,
        in_flight: Vec<InFlightMessage>,
        error: Error,
    ) {
        let conversations = std::slice::from_ref(conversation);
        let queued = self.queue_if_rejected(conversations, Err(error));
        if Box::pin(queued).await.is_ok() {
            complete(in_flight);
        }
    }

    /// Passes messages that the store did not publish to the feeds of this node. When the store publishes them later, the
    /// feeds drop them by their `seq`.
    fn deliver_locally(&self, conversation: &ConversationId, new: &EncodedCommit) {
        let channel = self.ctx.keys().conversation_channel(conversation);
        for message in &new.encoded {
            let bus = self.ctx.store().bus();
            bus.deliver_locally(channel.as_str(), message.frame.clone().into());
        }
    }

    fn encode_commit(&self, committed: Vec<CommittedMessage>) -> (EncodedCommit, PendingReplies) {
        let layout = self.recent_list_layout();
        let mut new = EncodedCommit {
            encoded: Vec::with_capacity(committed.len()),
            sender_positions: Vec::with_capacity(committed.len()),
            in_flight: Vec::with_capacity(committed.len()),
            head: ConversationHead::default(),
            epoch_before_write: u64::MAX,
        };
        let mut replies = Vec::with_capacity(committed.len());
        for CommittedMessage {
            row,
            is_duplicate,
            sender,
            mut reply,
        } in committed
        {
            let (kind, version) = (BusFrameKind::MessageCreated, sender.members_version);
            let (encoded, message) = EncodedMessage::new(kind, row, version, layout);
            new.in_flight.extend(reply.state.in_flight.take());
            new.sender_positions.push(SenderPosition {
                user: encoded.sender.clone(),
                seq: encoded.seq,
                joined_version: sender.joined_version,
                position_version: sender.position_version,
            });
            new.head = ConversationHead {
                last_seq: encoded.seq,
                rev: encoded.rev,
                members_version: sender.members_version,
                member_count: sender.member_count,
            };
            new.epoch_before_write = new.epoch_before_write.min(reply.state.epoch_before_write);
            new.encoded.push(encoded);
            let written = WrittenMessage {
                message,
                is_duplicate,
                sender,
            };
            replies.push((reply, written));
        }
        (new, replies)
    }

    /// Appends the messages when their turn comes and updates the unread counters; usually one round trip.
    async fn append_and_count(
        &self,
        conversation: &ConversationId,
        new: &EncodedCommit,
        mut turn: ApplyTurn,
    ) -> Result<AppendReply> {
        for sender in &new.sender_positions {
            self.typing
                .reset_throttle_after_message(conversation, &sender.user);
        }
        let participants = self.event_participants(conversation, &new.head).await?;
        let first = new.encoded.first().is_some_and(|it| it.seq == 1);
        let call = self.append_command(&AppendBatch {
            conversation,
            messages: &new.encoded,
            rev: new.head.rev,
            members_version: new.head.members_version,
            participants: &participants,
            // No message precedes the first one, so an unknown watermark may start at 0. If the epoch has changed, the
            // store may have lost a watermark.
            assumed_applied_seq: (first && new.epoch_before_write == self.ctx.store_epoch())
                .then_some(0),
        });
        let store = self.ctx.store().idempotent();
        let append = async {
            turn.wait().await;
            let appended = call.run::<AppendReply>(&store).await;
            failpoint!(self.ctx, "message.appended");
            drop(turn);
            appended
        };
        let count = async {
            failpoint!(self.ctx, "message.counting");
            let count = self.update_unread_counters(conversation, new, &participants);
            count.await
        };
        let (appended, counted) = tokio::join!(append, count);
        failpoint!(self.ctx, "message.counted");
        let appended = appended?;
        if appended.status != AppendStatus::Applied {
            let (status, applied_seq) = (appended.status, appended.applied_seq);
            let rest = self.apply_missing(conversation, status, applied_seq, None);
            Box::pin(rest).await?;
        }
        counted?;
        Ok(appended)
    }

    async fn update_unread_counters(
        &self,
        conversation: &ConversationId,
        new: &EncodedCommit,
        participants: &EventParticipants,
    ) -> Result<()> {
        let members = match participants {
            EventParticipants::Listed(users) => Some(&users[..]),
            EventParticipants::CountOnly(_) => None,
        };
        self.unread
            .count_messages(&unread::CountedMessages {
                conversation,
                seq: new.head.last_seq,
                sender_positions: &new.sender_positions,
                members,
                members_version: new.head.members_version,
            })
            .await
    }

    /// Refills the caches that the append script found missing, for other services and for the next reader.
    async fn refill_missing_caches(
        &self,
        conversation: &ConversationId,
        appended: AppendReply,
        members_version: u64,
    ) -> Result<()> {
        if appended.list_missing {
            self.load_newest(conversation, None).await?;
        }
        if appended.participants_missing {
            self.conversations
                .refill_participants(conversation, members_version)
                .await?;
        }
        Ok(())
    }

    /// Applies unapplied messages and replies to the senders of duplicates. The node that wrote the original message
    /// may have died before it applied the message.
    async fn apply_duplicates(
        &self,
        conversation: &ConversationId,
        duplicates: Vec<CommittedMessage>,
    ) {
        let mut replies = Vec::with_capacity(duplicates.len());
        let mut in_flight = Vec::with_capacity(duplicates.len());
        for mut duplicate in duplicates {
            in_flight.extend(duplicate.reply.state.in_flight.take());
            if duplicate.reply.state.counted_by_rate_limit {
                self.refund_rate_limit(&duplicate.row.sender_id).await;
            }
            replies.push(duplicate.into_written());
        }
        let (applied, permits) =
            reply_when_applied(replies, self.apply_unapplied(conversation), || {}).await;
        match applied {
            Ok(()) => complete(in_flight),
            Err(error) => self.finish_unapplied(conversation, in_flight, error).await,
        }
        drop(permits);
    }
}

/// The messages are applied.
fn complete(in_flight: Vec<InFlightMessage>) {
    for message in in_flight {
        message.complete();
    }
}
