//! Messages in the queue of the writer, and the results of their commits.
//!
//! Invariants:
//! 1. Every job is answered once: with its message by the [`CommitObserver`], or with an error here.

use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::commit_error::{self, CommitError};
use super::{CommitObserver, MAX_BATCH_SIZE, MessageDraft, WrittenMessage};
use crate::api::error::{Error, Result};
use crate::messages::in_flight::InFlightMessage;
use crate::messages::message_row::MessageRow;

/// A draft in the queue.
pub(super) struct WriteJob {
    pub draft: MessageDraft,
    reply: PendingReply,
    queued_at: Instant,
}

/// State of a send when its message is queued.
#[derive(Debug, Default)]
pub(in crate::capabilities::messages) struct SendState {
    /// Store epoch before the message was queued.
    pub epoch_before_write: u64,
    /// True if the rate limit counted the message.
    pub counted_by_rate_limit: bool,
    /// In-flight permit of the message.
    pub permit: Option<OwnedSemaphorePermit>,
    /// Holds the watermark of the node until the message is applied.
    pub in_flight: Option<InFlightMessage>,
}

impl SendState {
    /// The message was not written, so the watermark need not wait for it.
    pub(super) fn nothing_written(&mut self) {
        if let Some(in_flight) = self.in_flight.take() {
            in_flight.complete();
        }
    }
}

/// Reply channel of a sender.
pub(in crate::capabilities::messages) struct PendingReply {
    pub channel: oneshot::Sender<Result<WrittenMessage>>,
    pub state: SendState,
}

impl PendingReply {
    /// Sends the result to the sender. Returns the in-flight permit, which is released on drop. Unless the caller has
    /// taken `in_flight`, the message was not written.
    pub fn send(mut self, written: Result<WrittenMessage>) -> Option<OwnedSemaphorePermit> {
        self.state.nothing_written();
        // The receiver is gone if the sender was cancelled.
        let _ = self.channel.send(written);
        self.state.permit
    }
}

/// Result of a commit for one draft.
#[derive(Debug)]
pub(super) enum DraftOutcome {
    /// The message is stored.
    Stored(StoredRow, SenderSnapshot),
    /// The sender is not a member of the conversation.
    NotAMember,
}

/// Versions of the conversation and of the sender after the commit.
#[derive(Debug, Clone)]
pub struct SenderSnapshot {
    /// `members_version` of the conversation.
    pub members_version: u64,
    /// Number of members of the conversation.
    pub member_count: u64,
    /// `members_version` at which the sender joined; 0 for a duplicate whose sender has left.
    pub joined_version: u64,
    /// `position_version` of the sender after this message; 0 for a duplicate whose sender has left.
    pub position_version: u64,
}

/// Row of a stored message.
#[derive(Debug, Clone)]
pub(super) enum StoredRow {
    /// The draft was inserted with these numbers.
    New { seq: u64, rev: u64, created_at: u64 },
    /// The row existed before.
    Existing(Box<MessageRow>),
}

/// A committed message and its pending reply. The message for clients is built in the task of the conversation, not in
/// the writer, which would delay all senders.
pub(in crate::capabilities::messages) struct CommittedMessage {
    pub row: MessageRow,
    /// True if the message existed already under the same client id.
    pub is_duplicate: bool,
    pub sender: SenderSnapshot,
    pub reply: PendingReply,
}

impl WriteJob {
    pub fn new(draft: MessageDraft, reply: PendingReply) -> Self {
        Self {
            draft,
            reply,
            queued_at: Instant::now(),
        }
    }

    /// Combines the job with the result of its commit. If the sender is not a member, replies with that error and
    /// returns `None`.
    fn into_committed(self, outcome: DraftOutcome) -> Option<CommittedMessage> {
        let DraftOutcome::Stored(row, sender) = outcome else {
            let error = Error::NotAMember(self.draft.conversation);
            self.reply.send(Err(error));
            return None;
        };
        let (row, is_duplicate) = match row {
            StoredRow::New {
                seq,
                rev,
                created_at,
            } => (self.draft.into_row(seq, rev, created_at), false),
            StoredRow::Existing(row) => {
                let is_duplicate = row.id != self.draft.id.to_string();
                (*row, is_duplicate)
            }
        };
        Some(CommittedMessage {
            row,
            is_duplicate,
            sender,
            reply: self.reply,
        })
    }

    /// Replies with the error of the commit.
    fn reply_error(mut self, failure: &CommitError) {
        let error = failure.to_error();
        if matches!(error, Error::DatabaseUnavailable(_))
            && let Some(in_flight) = self.reply.state.in_flight.take()
        {
            in_flight.commit_unknown();
        }
        self.reply.send(Err(error));
    }

    /// Returns the job, or rejects it if it has waited longer than the timeout.
    pub(super) fn reject_if_expired(self, timeout: Duration) -> Option<Self> {
        if self.queued_at.elapsed() > timeout {
            self.reply.send(Err(commit_error::queue_timeout()));
            return None;
        }
        Some(self)
    }
}

impl CommittedMessage {
    /// Builds the reply for the sender.
    pub fn into_written(self) -> (PendingReply, WrittenMessage) {
        let written = WrittenMessage {
            message: self.row.into_message(),
            is_duplicate: self.is_duplicate,
            sender: self.sender,
        };
        (self.reply, written)
    }
}

/// Takes this job and the queued jobs, at most one batch. Rejects expired jobs.
pub(super) fn drain_batch(
    first: WriteJob,
    queue: &mut mpsc::Receiver<WriteJob>,
    timeout: Duration,
) -> Vec<WriteJob> {
    std::iter::once(first)
        .chain(std::iter::from_fn(|| queue.try_recv().ok()))
        .take(MAX_BATCH_SIZE)
        .filter_map(|job| job.reject_if_expired(timeout))
        .collect()
}

/// Passes the results of a commit to the observer, or replies with its error. If one message may have caused the error,
/// returns the two halves of the batch in order, to be committed separately.
pub(super) fn finish_batch(
    mut jobs: Vec<WriteJob>,
    commit: std::result::Result<Vec<DraftOutcome>, CommitError>,
    observer: &dyn CommitObserver,
) -> Option<[Vec<WriteJob>; 2]> {
    match commit {
        Ok(outcomes) => {
            let outcomes = jobs.into_iter().zip(outcomes);
            let committed = outcomes.filter_map(|(job, outcome)| job.into_committed(outcome));
            observer.on_committed(committed.collect());
        }
        Err(failure) if failure.is_statement_refused() && jobs.len() > 1 => {
            let rest = jobs.split_off(jobs.len() / 2);
            return Some([jobs, rest]);
        }
        Err(failure) => {
            let error = &failure.source;
            // The database logs an outage once.
            match failure.is_statement_refused() {
                true => tracing::error!(%error, messages = jobs.len(), "cannot write messages"),
                false => tracing::debug!(%error, messages = jobs.len(), "cannot write messages"),
            }
            for job in jobs {
                job.reply_error(&failure);
            }
        }
    }
    None
}

impl MessageDraft {
    /// Builds the row of the draft with these numbers.
    pub(super) fn into_row(self, seq: u64, rev: u64, created_at: u64) -> MessageRow {
        MessageRow {
            conversation_id: self.conversation,
            seq,
            id: self.id.to_string(),
            sender_id: self.sender,
            sender_role: self.sender_role.name().to_owned(),
            content: self.content,
            metadata: self.metadata,
            client_id: self.client_id,
            created_at,
            edited_at: None,
            deleted_at: None,
            rev,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::api::caller::Role;
    use crate::clock::Timestamp;
    use crate::ids::{ConversationId, UserId};

    fn draft(content: &str) -> MessageDraft {
        MessageDraft {
            id: Uuid::nil(),
            conversation: ConversationId::new("c").unwrap(),
            sender: UserId::new("alice").unwrap(),
            sender_role: Role::User,
            content: content.to_owned(),
            metadata: None,
            client_id: None,
            mentions: Vec::new(),
            at: Timestamp(1),
        }
    }

    /// A job, and the receiver of its reply.
    pub fn job(content: &str) -> (WriteJob, oneshot::Receiver<Result<WrittenMessage>>) {
        let (channel, reply) = oneshot::channel();
        let state = SendState::default();
        let job = WriteJob::new(draft(content), PendingReply { channel, state });
        (job, reply)
    }

    #[test]
    fn drafts_that_waited_too_long_are_rejected() {
        let (sender, mut queue) = mpsc::channel(MAX_BATCH_SIZE + 8);
        let mut replies = Vec::new();
        for n in 0..MAX_BATCH_SIZE + 4 {
            let (job, reply) = job(&n.to_string());
            assert!(sender.blocking_send(job).is_ok());
            replies.push(reply);
        }
        let first = queue.blocking_recv().unwrap();
        let jobs = drain_batch(first, &mut queue, Duration::MAX);
        let contents: Vec<_> = jobs.iter().map(|job| job.draft.content.as_str()).collect();
        assert_eq!(contents[..3], ["0", "1", "2"]);
        assert_eq!(contents.len(), MAX_BATCH_SIZE);

        let first = queue.blocking_recv().unwrap();
        assert!(drain_batch(first, &mut queue, Duration::ZERO).is_empty());
        let late = replies.pop().unwrap().blocking_recv().unwrap();
        assert!(matches!(late, Err(Error::DatabaseUnavailable(_))));
    }
}
