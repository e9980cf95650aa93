//! A message in the queue, and what became of it.

use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::failure::{self, CommitError};
use super::{CommitObserver, MAX_BATCH_SIZE, MessageDraft, WrittenMessage};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::messages::Message;
use crate::messages::row::MessageRow;

/// A message that waits for its commit.
pub(super) struct WriteJob {
    pub draft: MessageDraft,
    reply: PendingReply,
    queued_at: Instant,
}

/// Who waits for a message, and what was true when it was sent.
pub(in crate::messages) struct PendingReply {
    reply: oneshot::Sender<Result<WrittenMessage>>,
    /// The epoch of the store.
    pub epoch_before_write: u64,
    /// It took a place of the sender's rate.
    pub counted_by_rate_limit: bool,
    /// Its place among what is under way.
    pub permit: Option<OwnedSemaphorePermit>,
}

impl PendingReply {
    /// Of somebody who waits, and nothing more.
    pub fn new(reply: oneshot::Sender<Result<WrittenMessage>>) -> Self {
        Self {
            reply,
            epoch_before_write: 0,
            counted_by_rate_limit: false,
            permit: None,
        }
    }

    /// Tells what became of the message. The place is given back when what this returns is dropped.
    pub fn answer(self, written: Result<WrittenMessage>) -> Option<OwnedSemaphorePermit> {
        // Who has given up needs no answer.
        let _ = self.reply.send(written);
        self.permit
    }
}

/// What a commit did with a message.
#[derive(Debug)]
pub(super) enum DraftOutcome {
    /// It is there.
    Stored(StoredRow, SenderSnapshot),
    /// Its sender is no member of the conversation.
    NotAMember,
}

/// What the conversation looked like, and the sender in it.
#[derive(Debug, Clone)]
pub(super) struct SenderSnapshot {
    pub members_version: u64,
    pub member_count: u64,
    pub joined_version: u64,
    pub position_version: u64,
}

/// The row of a message.
#[derive(Debug, Clone)]
pub(super) enum StoredRow {
    /// It is the draft with these numbers.
    New { seq: u64, rev: u64, created_at: u64 },
    /// It was there before.
    Existing(Box<MessageRow>),
}

/// A message that is on disk. What clients get is made of it where they wait, not where all others wait for it.
pub(in crate::messages) struct CommittedMessage {
    row: MessageRow,
    repeated: bool,
    sender: SenderSnapshot,
    ticket: PendingReply,
}

impl WriteJob {
    pub fn new(draft: MessageDraft, reply: PendingReply) -> Self {
        Self {
            draft,
            reply,
            queued_at: Instant::now(),
        }
    }

    /// What the commit made of it; who is no member is told so.
    fn into_committed(self, outcome: DraftOutcome) -> Option<CommittedMessage> {
        let DraftOutcome::Stored(row, place) = outcome else {
            self.reply
                .answer(Err(Error::NotAMember(self.draft.conversation)));
            return None;
        };
        let (row, repeated) = match row {
            StoredRow::New {
                seq,
                rev,
                created_at,
            } => (self.draft.into_row(seq, rev, created_at), false),
            StoredRow::Existing(row) => {
                let repeated = row.id != self.draft.id.to_string();
                (*row, repeated)
            }
        };
        Some(CommittedMessage {
            row,
            repeated,
            sender: place,
            ticket: self.reply,
        })
    }

    /// Tells that the commit failed.
    fn reply_error(self, failure: &CommitError, after: &dyn CommitObserver) {
        let error = failure.to_error();
        if matches!(error, Error::DatabaseUnavailable(_)) {
            after.on_commit_unknown(&self.draft.conversation);
        }
        self.reply.answer(Err(error));
    }

    /// Itself if it is still to be written: nobody waits for ever.
    fn reject_if_expired(self, timeout: Duration) -> Option<Self> {
        if self.queued_at.elapsed() > timeout {
            self.reply.answer(Err(failure::queue_timeout()));
            return None;
        }
        Some(self)
    }
}

impl CommittedMessage {
    /// Where it was sent.
    pub fn conversation(&self) -> &ConversationId {
        &self.row.conversation_id
    }

    /// Whether it was there before.
    pub fn is_duplicate(&self) -> bool {
        self.repeated
    }

    /// Its row, what is known of it beside its message, and who waits for it.
    pub fn into_parts(
        self,
    ) -> (
        MessageRow,
        impl FnOnce(Message) -> WrittenMessage,
        PendingReply,
    ) {
        let (repeated, place) = (self.repeated, self.sender);
        let written = move |message| WrittenMessage {
            message,
            repeated,
            members_version: place.members_version,
            member_count: place.member_count,
            joined_version: place.joined_version,
            position_version: place.position_version,
        };
        (self.row, written, self.ticket)
    }
}

/// This message and what else is queued now, as much as one commit takes.
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

/// Hands over what a commit did, or tells everybody that it failed. Gives back, in order, the halves of a batch in which somebody else's
/// message may be to blame.
pub(super) fn finish_batch(
    mut jobs: Vec<WriteJob>,
    done: std::result::Result<Vec<DraftOutcome>, CommitError>,
    after: &dyn CommitObserver,
) -> Option<[Vec<WriteJob>; 2]> {
    match done {
        Ok(outcomes) => {
            let all = jobs.into_iter().zip(outcomes);
            let committed = all.filter_map(|(job, outcome)| job.into_committed(outcome));
            after.on_committed(committed.collect());
        }
        Err(failure) if failure.is_statement_refused() && jobs.len() > 1 => {
            let rest = jobs.split_off(jobs.len() / 2);
            return Some([jobs, rest]);
        }
        Err(failure) => {
            let error = &failure.source;
            tracing::error!(%error, messages = jobs.len(), "cannot write messages");
            for job in jobs {
                job.reply_error(&failure, after);
            }
        }
    }
    None
}

impl MessageDraft {
    /// Its row with these numbers.
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
    use crate::access::Role;
    use crate::context::Timestamp;
    use crate::ids::{ConversationId, UserId};

    pub fn draft(content: &str) -> MessageDraft {
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

    #[test]
    fn drafts_that_waited_too_long_are_rejected() {
        let (sender, mut queue) = mpsc::channel(MAX_BATCH_SIZE + 8);
        let mut answers = Vec::new();
        for n in 0..MAX_BATCH_SIZE + 4 {
            let (answer, answered) = oneshot::channel();
            assert!(
                sender
                    .blocking_send(WriteJob::new(
                        draft(&n.to_string()),
                        PendingReply::new(answer)
                    ))
                    .is_ok()
            );
            answers.push(answered);
        }
        let first = queue.blocking_recv().unwrap();
        let jobs = drain_batch(first, &mut queue, Duration::MAX);
        let contents: Vec<_> = jobs.iter().map(|job| job.draft.content.as_str()).collect();
        assert_eq!(contents[..3], ["0", "1", "2"]);
        assert_eq!(contents.len(), MAX_BATCH_SIZE);

        let first = queue.blocking_recv().unwrap();
        assert!(drain_batch(first, &mut queue, Duration::ZERO).is_empty());
        let late = answers.pop().unwrap().blocking_recv().unwrap();
        assert!(matches!(late, Err(Error::DatabaseUnavailable(_))));
    }
}
