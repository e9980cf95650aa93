//! A message in the queue, and what became of it.

use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::failure::{self, Failure};
use super::{After, Draft, MOST_AT_ONCE, Written};
use crate::error::{Error, Result};
use crate::ids::ConversationId;
use crate::messages::Message;
use crate::messages::row::MessageRow;

/// A message that waits for its commit.
pub(super) struct Job {
    pub draft: Draft,
    ticket: Ticket,
    since: Instant,
}

/// Who waits for a message, and what was true when it was sent.
pub(in crate::messages) struct Ticket {
    answer: oneshot::Sender<Result<Written>>,
    /// The epoch of the store.
    pub epoch: u64,
    /// It took a place of the sender's rate.
    pub counted: bool,
    /// Its place among what is under way.
    pub place: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    /// Of somebody who waits, and nothing more.
    pub fn new(answer: oneshot::Sender<Result<Written>>) -> Self {
        Self {
            answer,
            epoch: 0,
            counted: false,
            place: None,
        }
    }

    /// Tells what became of the message. The place is given back when what this returns is dropped.
    pub fn answer(self, written: Result<Written>) -> Option<OwnedSemaphorePermit> {
        // Who has given up needs no answer.
        let _ = self.answer.send(written);
        self.place
    }
}

/// What a commit did with a message.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is there.
    There(Row, Place),
    /// Its sender is no member of the conversation.
    NotAMember,
}

/// What the conversation looked like, and the sender in it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub members_version: u64,
    pub member_count: u64,
    pub joined_version: u64,
    pub position_version: u64,
}

/// The row of a message.
#[derive(Debug, Clone)]
pub(super) enum Row {
    /// It is the draft with these numbers.
    New { seq: u64, rev: u64, created_at: u64 },
    /// It was there before.
    Old(Box<MessageRow>),
}

/// A message that is on disk. What clients get is made of it where they wait, not where all others wait for it.
pub(in crate::messages) struct Committed {
    row: MessageRow,
    repeated: bool,
    place: Place,
    ticket: Ticket,
}

impl Job {
    pub fn new(draft: Draft, ticket: Ticket) -> Self {
        Self {
            draft,
            ticket,
            since: Instant::now(),
        }
    }

    /// What the commit made of it; who is no member is told so.
    fn done(self, outcome: Outcome) -> Option<Committed> {
        let Outcome::There(row, place) = outcome else {
            self.ticket
                .answer(Err(Error::NotAMember(self.draft.conversation)));
            return None;
        };
        let (row, repeated) = match row {
            Row::New {
                seq,
                rev,
                created_at,
            } => (self.draft.into_row(seq, rev, created_at), false),
            Row::Old(row) => {
                let repeated = row.id != self.draft.id.to_string();
                (*row, repeated)
            }
        };
        Some(Committed {
            row,
            repeated,
            place,
            ticket: self.ticket,
        })
    }

    /// Tells that the commit failed.
    fn failed(self, failure: &Failure, after: &dyn After) {
        let error = failure.error();
        if matches!(error, Error::DatabaseUnavailable(_)) {
            after.in_doubt(&self.draft.conversation);
        }
        self.ticket.answer(Err(error));
    }

    /// Itself if it is still to be written: nobody waits for ever.
    fn in_time(self, timeout: Duration) -> Option<Self> {
        if self.since.elapsed() > timeout {
            self.ticket.answer(Err(failure::late()));
            return None;
        }
        Some(self)
    }
}

impl Committed {
    /// Where it was sent.
    pub fn conversation(&self) -> &ConversationId {
        &self.row.conversation_id
    }

    /// Whether it was there before.
    pub fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// Its row, what is known of it beside its message, and who waits for it.
    pub fn parts(self) -> (MessageRow, impl FnOnce(Message) -> Written, Ticket) {
        let (repeated, place) = (self.repeated, self.place);
        let written = move |message| Written {
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
pub(super) fn drain(first: Job, queue: &mut mpsc::Receiver<Job>, timeout: Duration) -> Vec<Job> {
    std::iter::once(first)
        .chain(std::iter::from_fn(|| queue.try_recv().ok()))
        .take(MOST_AT_ONCE)
        .filter_map(|job| job.in_time(timeout))
        .collect()
}

/// Hands over what a commit did, or tells everybody that it failed. Gives back, in order, the halves of a batch in which somebody else's
/// message may be to blame.
pub(super) fn settle(
    mut jobs: Vec<Job>,
    done: std::result::Result<Vec<Outcome>, Failure>,
    after: &dyn After,
) -> Option<[Vec<Job>; 2]> {
    match done {
        Ok(outcomes) => {
            let all = jobs.into_iter().zip(outcomes);
            let committed = all.filter_map(|(job, outcome)| job.done(outcome));
            after.committed(committed.collect());
        }
        Err(failure) if failure.is_refused() && jobs.len() > 1 => {
            let rest = jobs.split_off(jobs.len() / 2);
            return Some([jobs, rest]);
        }
        Err(failure) => {
            let error = &failure.source;
            tracing::error!(%error, messages = jobs.len(), "cannot write messages");
            for job in jobs {
                job.failed(&failure, after);
            }
        }
    }
    None
}

impl Draft {
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
    use crate::context::Moment;
    use crate::ids::{ConversationId, UserId};

    pub fn draft(content: &str) -> Draft {
        Draft {
            id: Uuid::nil(),
            conversation: ConversationId::new("c").unwrap(),
            sender: UserId::new("alice").unwrap(),
            sender_role: Role::User,
            content: content.to_owned(),
            metadata: None,
            client_id: None,
            mentions: Vec::new(),
            at: Moment(1),
        }
    }

    #[test]
    fn what_waited_too_long_is_refused() {
        let (sender, mut queue) = mpsc::channel(MOST_AT_ONCE + 8);
        let mut answers = Vec::new();
        for n in 0..MOST_AT_ONCE + 4 {
            let (answer, answered) = oneshot::channel();
            assert!(
                sender
                    .blocking_send(Job::new(draft(&n.to_string()), Ticket::new(answer)))
                    .is_ok()
            );
            answers.push(answered);
        }
        let first = queue.blocking_recv().unwrap();
        let jobs = drain(first, &mut queue, Duration::MAX);
        let contents: Vec<_> = jobs.iter().map(|job| job.draft.content.as_str()).collect();
        assert_eq!(contents[..3], ["0", "1", "2"]);
        assert_eq!(contents.len(), MOST_AT_ONCE);

        let first = queue.blocking_recv().unwrap();
        assert!(drain(first, &mut queue, Duration::ZERO).is_empty());
        let late = answers.pop().unwrap().blocking_recv().unwrap();
        assert!(matches!(late, Err(Error::DatabaseUnavailable(_))));
    }
}
