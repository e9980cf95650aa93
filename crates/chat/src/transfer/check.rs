//! Checks a whole file before anything is imported.
//!
//! Invariant: the check reads only the file. It remembers a hash of each conversation id and the time of its newest
//! message, and nothing of the other records.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::BufRead;

use super::ImportLimits;
use super::error::LineProblem;
use super::fields::FileTime;
use super::lines::{NumberedRecord, RecordReader};
use super::records::{FileFormat, Record, RecordCounts, RecordType};
use crate::ids::ConversationId;

/// Maximum number of problems that are remembered.
const MAX_PROBLEMS: usize = 20;
/// Maximum number of conversations that are looked up in the database.
const MAX_OTHER_CONVERSATIONS: usize = 1_000;

/// The first problems of a file.
#[derive(Debug, Default)]
pub struct LimitedProblems {
    /// The first problems.
    pub first: Vec<LineProblem>,
    /// Number of all problems.
    pub total: u64,
}

impl LimitedProblems {
    /// Adds a problem.
    pub fn push(&mut self, problem: LineProblem) {
        self.total += 1;
        if self.first.len() < MAX_PROBLEMS {
            self.first.push(problem);
        }
    }
}

/// Result of the check of a file.
#[derive(Debug)]
pub struct FileCheck {
    /// Origin of the file.
    pub format: FileFormat,
    /// Number of records by type.
    pub counts: RecordCounts,
    /// Problems of lines.
    pub problems: LimitedProblems,
    /// Conversations that no line before describes, with the first line that names each of them. They must exist in the
    /// database.
    pub other_conversations: Vec<(u64, ConversationId)>,
}

/// State after the lines so far.
struct CheckState {
    check: FileCheck,
    /// Time of the newest message of each conversation, by the hash of its id.
    conversations: HashMap<u64, FileTime>,
    others: HashSet<u64>,
    has_end: bool,
}

/// Checks a file. `on_progress` is called with the number of bytes that were read.
pub fn check_file<R: BufRead>(
    input: R,
    limits: &ImportLimits,
    mut on_progress: impl FnMut(u64),
) -> std::io::Result<FileCheck> {
    let mut reader = RecordReader::new(input);
    let mut state = CheckState {
        check: FileCheck {
            format: FileFormat::Foreign,
            counts: RecordCounts::default(),
            problems: LimitedProblems::default(),
            other_conversations: Vec::new(),
        },
        conversations: HashMap::new(),
        others: HashSet::new(),
        has_end: false,
    };
    while let Some(next) = reader.next_record()? {
        let checked = next.and_then(|NumberedRecord { line, record }| {
            state
                .add(line, &record, limits)
                .map_err(|problem| problem.at(line))
        });
        if let Err(problem) = checked {
            state.check.problems.push(problem);
        }
        on_progress(reader.bytes_read());
    }
    if state.check.format == FileFormat::Exported && !state.has_end {
        let text =
            "the file ends without a line of the type `end`, so it was cut off; export it again";
        state
            .check
            .problems
            .push(LineProblem::of_line(text).at(reader.line()));
    }
    Ok(state.check)
}

impl CheckState {
    fn add(
        &mut self,
        line: u64,
        record: &Record,
        limits: &ImportLimits,
    ) -> Result<(), LineProblem> {
        if self.has_end {
            return Err(LineProblem::of_line(
                "there is a line after the line of the type `end`; remove it",
            ));
        }
        match record {
            Record::Header(_) => {
                if line != 1 {
                    return Err(LineProblem::new(
                        "type",
                        "only the first line may have the type `parlor`; import each file by itself",
                    ));
                }
                self.check.format = FileFormat::Exported;
            }
            Record::End(end) => return self.end(end.records),
            _ => self.check.counts.add(record.record_type(), 1),
        }
        record.check(self.check.format, limits)?;
        self.check_conversation(line, record)
    }

    fn end(&mut self, expected: u64) -> Result<(), LineProblem> {
        if self.check.format == FileFormat::Foreign {
            return Err(LineProblem::new(
                "type",
                "only a file that Parlor exported has a line of the type `end`; remove it",
            ));
        }
        self.has_end = true;
        let found = self.check.counts.total();
        if found == expected {
            return Ok(());
        }
        let text = format!(
            "Parlor exported {expected} records, but the file has {found}; export it again"
        );
        Err(LineProblem::new("records", text))
    }

    /// Checks that the conversation of a record is known, and that its messages are in the order of their times.
    fn check_conversation(&mut self, line: u64, record: &Record) -> Result<(), LineProblem> {
        let id = match record {
            Record::Conversation(it) => {
                let id = it.conversation_id()?;
                self.conversations
                    .entry(hash_of(&id))
                    .or_insert(it.created_at);
                return Ok(());
            }
            Record::Member(it) => it.ids()?.0,
            Record::Message(it) => it.ids()?.0,
            Record::Mention(it) => it.conversation_id()?,
            Record::Read(it) => it.ids()?.0,
            _ => return Ok(()),
        };
        let hash = hash_of(&id);
        let Some(last_at) = self.conversations.get_mut(&hash) else {
            let others = &mut self.check.other_conversations;
            if others.len() < MAX_OTHER_CONVERSATIONS && self.others.insert(hash) {
                others.push((line, id));
            }
            return Ok(());
        };
        if let Record::Message(message) = record
            && self.check.format == FileFormat::Foreign
        {
            check_order(*last_at, message.created_at)?;
            *last_at = message.created_at;
        }
        Ok(())
    }
}

/// Fails if a message is older than the one before it in its conversation.
pub(super) fn check_order(last_at: FileTime, created_at: FileTime) -> Result<(), LineProblem> {
    if created_at >= last_at {
        return Ok(());
    }
    let text = format!(
        "the message is older than the message before it in the conversation, or than the conversation ({last_at}); sort the messages of each conversation by time"
    );
    Err(LineProblem::new("createdAt", text))
}

/// A 64-bit hash is enough to recognize an id.
fn hash_of(id: &ConversationId) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl FileCheck {
    /// Number of records of each type that occurs.
    pub fn counted_types(&self) -> impl Iterator<Item = (RecordType, u64)> {
        let counted = RecordType::ALL.iter().map(|it| (*it, self.counts.get(*it)));
        counted.filter(|(_, count)| *count > 0)
    }
}
