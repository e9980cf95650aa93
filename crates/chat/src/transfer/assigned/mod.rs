//! Writes a page of a file of another system: `seq`, `rev` and ids are assigned as if the lines were requests, in their
//! order.
//!
//! Invariants:
//! 1. The n-th message of a conversation in the file gets the next `seq`. Its time is kept, and is not before that of
//!    the message before it.
//! 2. A message is recognized by conversation, sender and client id, which is the id in the file. Conversations, members
//!    and users are recognized by their ids. A row that exists stays as it is.
//! 3. The same lines give the same rows in every database.

mod conversation_state;
mod conversations;
mod messages;
mod owners;
mod reads;

use std::collections::{HashMap, HashSet};

use self::conversation_state::ConversationState;
use self::messages::{NewMessage, OwnMessages};
pub(super) use self::owners::choose_owners;
use super::ImportLimits;
use super::error::{ImportError, LineProblem};
use super::exact::unknown_conversation_problem;
use super::import::PageCounts;
use super::lines::NumberedRecord;
use super::records::{ReadRecord, Record, RecordType};
use super::rows::{self, ImportRow};
use super::tables::USERS;
use crate::database::WriteTransaction;
use crate::ids::{ConversationId, UserId};

/// Conversation, sender and client id of a message.
type MessageKey = (String, String, String);

/// The effects of the lines of a page that are not written yet.
#[derive(Default)]
struct AssignedPage<'p> {
    conversations: HashMap<ConversationId, ConversationState>,
    /// Messages that the database has, and new ones.
    known_messages: HashSet<MessageKey>,
    new_messages: Vec<NewMessage>,
    /// Messages that the members have sent, which counts as reading.
    own_messages: HashMap<(ConversationId, UserId), OwnMessages>,
    reads: Vec<(u64, &'p ReadRecord)>,
}

/// Writes the records of a page.
pub(super) async fn write_page(
    tx: &mut WriteTransaction,
    page: &[NumberedRecord],
    limits: &ImportLimits,
) -> Result<PageCounts, ImportError> {
    let mut counts = PageCounts::default();
    let mut state = AssignedPage {
        conversations: conversation_state::find_states(tx, page).await?,
        known_messages: messages::find_existing(tx, page).await?,
        ..AssignedPage::default()
    };
    for it in page {
        let changed = state.add(tx, it, limits).await;
        let changed = changed.map_err(|error| match error {
            ImportError::Line(problem) if problem.line == 0 => {
                ImportError::Line(problem.at(it.line))
            }
            error => error,
        })?;
        counts.add(it.record.record_type(), 1, u64::from(changed));
    }
    let reads = state.flush(tx).await?;
    counts.add(RecordType::Read, 0, reads);
    Ok(counts)
}

impl<'p> AssignedPage<'p> {
    /// Applies a line. Returns true if it changes the database. The lines of the type `read` are applied by
    /// [`flush`](Self::flush).
    async fn add(
        &mut self,
        tx: &mut WriteTransaction,
        it: &'p NumberedRecord,
        limits: &ImportLimits,
    ) -> Result<bool, ImportError> {
        match &it.record {
            Record::User(record) => {
                let row = ImportRow {
                    line: it.line,
                    cells: record.to_row(),
                };
                let outcome = rows::insert_missing(tx, &USERS, USERS.key_columns, &[row]).await?;
                Ok(outcome.inserted > 0)
            }
            Record::Conversation(record) => self.add_conversation(tx, record).await,
            Record::Member(record) => self.add_member(tx, record).await,
            Record::Message(record) => self.add_message(it.line, record, limits),
            Record::Read(record) => {
                self.reads.push((it.line, record));
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Writes everything that is not written yet. Returns the number of members whose positions a line changed.
    async fn flush(mut self, tx: &mut WriteTransaction) -> Result<u64, ImportError> {
        self.insert_messages(tx).await?;
        self.raise_joined_seqs(tx).await?;
        self.update_senders(tx).await?;
        self.update_conversations(tx).await?;
        let mut changed = 0;
        for (line, record) in std::mem::take(&mut self.reads) {
            let applied = self.apply_read(tx, record).await;
            changed += u64::from(applied.map_err(|error| match error {
                ImportError::Line(problem) => ImportError::Line(problem.at(line)),
                error => error,
            })?);
        }
        Ok(changed)
    }

    /// The state of a conversation, which must exist.
    fn require_conversation(
        &mut self,
        id: &ConversationId,
    ) -> Result<&mut ConversationState, LineProblem> {
        let state = self.conversations.get_mut(id);
        state.ok_or_else(|| unknown_conversation_problem(id.as_str()))
    }
}

/// The problem of a user who is not one of the two of a direct conversation.
fn not_in_pair_problem(field: &str, user: &UserId) -> LineProblem {
    let text = format!("{user} is not one of the two users of the direct conversation");
    LineProblem::new(field, text)
}
