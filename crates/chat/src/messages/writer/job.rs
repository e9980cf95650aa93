//! A message in the queue, and what became of it.

use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::failure::{self, Failure};
use super::{Draft, MOST_AT_ONCE, Written};
use crate::error::{Error, Result};
use crate::messages::row::MessageRow;

/// A message that waits for its commit, and who waits for it.
pub(super) struct Job {
    pub draft: Draft,
    answer: oneshot::Sender<Result<Stored>>,
    since: Instant,
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
    pub kind: String,
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

/// A written message; what clients get is made of it where they wait, not where all others wait for it.
#[derive(Debug)]
pub(super) struct Stored {
    row: MessageRow,
    repeated: bool,
    place: Place,
}

impl Job {
    pub fn new(draft: Draft, answer: oneshot::Sender<Result<Stored>>) -> Self {
        Self {
            draft,
            answer,
            since: Instant::now(),
        }
    }

    /// Tells what the commit did.
    pub fn done(self, outcome: Outcome) {
        let answer = match outcome {
            Outcome::NotAMember => Err(Error::NotAMember(self.draft.conversation)),
            Outcome::There(row, place) => Ok(Stored::new(self.draft, row, place)),
        };
        // Who has given up needs no answer.
        let _ = self.answer.send(answer);
    }

    /// Tells that the commit failed.
    pub fn failed(self, failure: &Failure) {
        let _ = self.answer.send(Err(failure.error()));
    }

    /// Itself if it is still to be written: nobody waits for ever, and nothing is written for nobody.
    fn in_time(self, timeout: Duration) -> Option<Self> {
        if self.answer.is_closed() {
            return None;
        }
        if self.since.elapsed() > timeout {
            let _ = self.answer.send(Err(failure::late()));
            return None;
        }
        Some(self)
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

/// Tells everybody what a commit did, or that it failed. Gives back, in order, the halves of a batch in which somebody else's
/// message may be to blame.
pub(super) fn settle(
    mut jobs: Vec<Job>,
    done: std::result::Result<Vec<Outcome>, Failure>,
) -> Option<[Vec<Job>; 2]> {
    match done {
        Ok(outcomes) => {
            for (job, outcome) in jobs.into_iter().zip(outcomes) {
                job.done(outcome);
            }
        }
        Err(failure) if failure.is_refused() && jobs.len() > 1 => {
            let rest = jobs.split_off(jobs.len() / 2);
            return Some([jobs, rest]);
        }
        Err(failure) => {
            let error = &failure.source;
            tracing::error!(%error, messages = jobs.len(), "cannot write messages");
            for job in jobs {
                job.failed(&failure);
            }
        }
    }
    None
}

impl Stored {
    fn new(draft: Draft, row: Row, place: Place) -> Self {
        let (row, repeated) = match row {
            Row::New {
                seq,
                rev,
                created_at,
            } => (draft.into_row(seq, rev, created_at), false),
            Row::Old(row) => {
                let repeated = row.id != draft.id.to_string();
                (*row, repeated)
            }
        };
        Self {
            row,
            repeated,
            place,
        }
    }
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

impl From<Stored> for Written {
    fn from(stored: Stored) -> Self {
        let Stored {
            row,
            repeated,
            place,
        } = stored;
        Self {
            message: row.into_message(),
            repeated,
            members_version: place.members_version,
            member_count: place.member_count,
            kind: place.kind,
            joined_version: place.joined_version,
            position_version: place.position_version,
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
    fn what_waited_too_long_is_refused_and_what_nobody_waits_for_is_left_out() {
        let (sender, mut queue) = mpsc::channel(MOST_AT_ONCE + 8);
        let mut answers = Vec::new();
        for n in 0..MOST_AT_ONCE + 4 {
            let (answer, answered) = oneshot::channel();
            assert!(
                sender
                    .blocking_send(Job::new(draft(&n.to_string()), answer))
                    .is_ok()
            );
            answers.push(answered);
        }
        answers.remove(1);
        let first = queue.blocking_recv().unwrap();
        let jobs = drain(first, &mut queue, Duration::MAX);
        let contents: Vec<_> = jobs.iter().map(|job| job.draft.content.as_str()).collect();
        assert_eq!(contents[..3], ["0", "2", "3"]);
        assert_eq!(contents.len(), MOST_AT_ONCE - 1);

        let first = queue.blocking_recv().unwrap();
        assert!(drain(first, &mut queue, Duration::ZERO).is_empty());
        let late = answers.pop().unwrap().blocking_recv().unwrap();
        assert!(matches!(late, Err(Error::DatabaseUnavailable(_))));
    }
}
