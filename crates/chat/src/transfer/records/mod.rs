//! The records of a file: one JSON object per line, with its type in the field `type`.
//!
//! Invariants:
//! 1. Each record is documented field by field in docs/guide/importing.md.
//! 2. A record whose rows were read from a database converts into equal rows.

mod conversation;
mod member;
mod message;
mod user;

use serde::{Deserialize, Serialize};

pub use self::conversation::{ConversationRecord, DeletedConversationRecord};
pub use self::member::{MemberRecord, ReadRecord};
pub use self::message::{MentionRecord, MessageRecord};
pub use self::user::{SessionRecord, UserRecord};
use super::ImportLimits;
use super::error::{LineProblem, LineResult};
use crate::keys::named_enum;

/// Version of the format.
const FORMAT_VERSION: u32 = 1;

named_enum! {
    /// Type of a record.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub enum RecordType {
        /// First line of a file that Parlor exported.
        Parlor = "parlor",
        /// A user: block and revoked tokens.
        User = "user",
        /// The session of a user. Only in files that Parlor exported.
        Session = "session",
        /// Id of a deleted conversation, which is never used again. Only in files that Parlor exported.
        DeletedConversation = "deletedConversation",
        /// A conversation.
        Conversation = "conversation",
        /// A member of a conversation.
        Member = "member",
        /// A message.
        Message = "message",
        /// A message that mentions a user. Only in files that Parlor exported.
        Mention = "mention",
        /// How far a member has received and read a conversation.
        Read = "read",
        /// Last line of a file that Parlor exported.
        End = "end",
    }
}

/// Origin of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FileFormat {
    /// Parlor exported the file: `seq`, `rev` and ids are taken over exactly.
    Exported,
    /// Another system wrote the file: `seq`, `rev` and ids are assigned.
    Foreign,
}

/// First line of a file that Parlor exported.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderRecord {
    /// Always `parlor`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Version of the format.
    pub version: u32,
}

impl HeaderRecord {
    /// The header of this version of the format.
    pub fn current() -> Self {
        Self {
            record_type: RecordType::Parlor,
            version: FORMAT_VERSION,
        }
    }
}

/// Number of records of each type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCounts([u64; RecordType::ALL.len()]);

impl RecordCounts {
    /// Counts more records of a type.
    pub fn add(&mut self, record_type: RecordType, more: u64) {
        self.0[record_type as usize] += more;
    }

    /// Number of records of a type.
    pub fn get(&self, record_type: RecordType) -> u64 {
        self.0[record_type as usize]
    }

    /// Number of records of all types.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// Last line of a file that Parlor exported. A file without it was cut off.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndRecord {
    /// Always `end`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Number of lines between the first and the last one.
    pub records: u64,
}

impl EndRecord {
    /// The last line after this number of records.
    pub fn new(records: u64) -> Self {
        Self {
            record_type: RecordType::End,
            records,
        }
    }
}

/// One line of a file.
#[derive(Debug, Clone)]
pub enum Record {
    /// First line of a file that Parlor exported.
    Header(HeaderRecord),
    /// A user.
    User(UserRecord),
    /// A session.
    Session(SessionRecord),
    /// Id of a deleted conversation.
    DeletedConversation(DeletedConversationRecord),
    /// A conversation.
    Conversation(ConversationRecord),
    /// A member.
    Member(MemberRecord),
    /// A message.
    Message(MessageRecord),
    /// A mention.
    Mention(MentionRecord),
    /// Positions of a member.
    Read(ReadRecord),
    /// Last line of a file that Parlor exported.
    End(EndRecord),
}

/// The part of a line that decides how the rest is read.
#[derive(Deserialize)]
struct TypeOfLine {
    #[serde(rename = "type")]
    record_type: String,
}

impl Record {
    /// Parses a line.
    pub fn parse(line: &str) -> LineResult<Self> {
        let TypeOfLine { record_type } = parse_json(line)?;
        let Some(record_type) = RecordType::parse(&record_type) else {
            let known: Vec<_> = RecordType::ALL.iter().map(|it| it.name()).collect();
            let text = format!(
                "the type {record_type:?} is unknown; use one of {}",
                known.join(", ")
            );
            return Err(LineProblem::new("type", text));
        };
        Ok(match record_type {
            RecordType::Parlor => Self::Header(parse_json(line)?),
            RecordType::User => Self::User(parse_json(line)?),
            RecordType::Session => Self::Session(parse_json(line)?),
            RecordType::DeletedConversation => Self::DeletedConversation(parse_json(line)?),
            RecordType::Conversation => Self::Conversation(parse_json(line)?),
            RecordType::Member => Self::Member(parse_json(line)?),
            RecordType::Message => Self::Message(parse_json(line)?),
            RecordType::Mention => Self::Mention(parse_json(line)?),
            RecordType::Read => Self::Read(parse_json(line)?),
            RecordType::End => Self::End(parse_json(line)?),
        })
    }

    /// Type of the record.
    pub fn record_type(&self) -> RecordType {
        match self {
            Self::Header(_) => RecordType::Parlor,
            Self::User(_) => RecordType::User,
            Self::Session(_) => RecordType::Session,
            Self::DeletedConversation(_) => RecordType::DeletedConversation,
            Self::Conversation(_) => RecordType::Conversation,
            Self::Member(_) => RecordType::Member,
            Self::Message(_) => RecordType::Message,
            Self::Mention(_) => RecordType::Mention,
            Self::Read(_) => RecordType::Read,
            Self::End(_) => RecordType::End,
        }
    }

    /// Checks everything that the record alone decides.
    pub(super) fn check(&self, format: FileFormat, limits: &ImportLimits) -> LineResult<()> {
        if let (
            FileFormat::Foreign,
            Self::Session(_) | Self::DeletedConversation(_) | Self::Mention(_),
        ) = (format, self)
        {
            let text = format!(
                "only a file that Parlor exported has lines of the type {:?}; remove the line",
                self.record_type().name()
            );
            return Err(LineProblem::new("type", text));
        }
        match self {
            Self::Header(it) => it.check(),
            Self::User(it) => it.check(format, limits),
            Self::Session(it) => it.check(),
            Self::DeletedConversation(it) => it.check(),
            Self::Conversation(it) => it.check(format, limits),
            Self::Member(it) => it.check(format, limits),
            Self::Message(it) => it.check(format, limits),
            Self::Mention(it) => it.check(),
            Self::Read(it) => it.check(format),
            Self::End(_) => Ok(()),
        }
    }
}

impl HeaderRecord {
    fn check(&self) -> LineResult<()> {
        if self.version == FORMAT_VERSION {
            return Ok(());
        }
        let text = format!(
            "the file has version {} of the format, but this program reads version {FORMAT_VERSION}; use the version of Parlor that exported it, or a later one",
            self.version
        );
        Err(LineProblem::new("version", text))
    }
}

/// Parses a JSON object, and names the field of an error.
fn parse_json<'a, T: Deserialize<'a>>(line: &'a str) -> LineResult<T> {
    let mut json = serde_json::Deserializer::from_str(line);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let text = error.inner().to_string();
        // The line is known already, and the column says little about a JSON object.
        let text = text
            .rsplit_once(" at line ")
            .map_or(&*text, |(text, _)| text);
        LineProblem {
            line: 0,
            field: Some(path).filter(|path| !matches!(&path[..], "." | "?")),
            text: text.to_owned(),
        }
    })?;
    json.end().map_err(|_| {
        LineProblem::of_line(
            "there is text after the JSON object; put each object on a line of its own",
        )
    })?;
    Ok(parsed)
}
