//! Messages and mentions.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::RecordType;
use super::conversation::check_past;
use crate::api::caller::Role;
use crate::database::copy::{CellRow, CellValue};
use crate::ids::{ConversationId, UserId};
use crate::messages::{ValidatedContent, validate_client_id};
use crate::transfer::error::{LineProblem, LineResult};
use crate::transfer::fields::{
    CellReader, FileNumber, FileTime, must_be_absent, number, optional_text, required, text,
};
use crate::transfer::{FileFormat, ImportLimits};

/// Maximum length of the id of an exported message in bytes.
const MAX_MESSAGE_ID_BYTES: usize = 64;

/// A message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageRecord {
    /// Always `message`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Id of the conversation.
    pub conversation_id: String,
    /// Number of the message in the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<FileNumber>,
    /// Id of the message. In a file of another system, it becomes the client id of the message.
    pub id: String,
    /// Id of the sender.
    pub sender_id: String,
    /// Role of the sender: `user`, `admin` or `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_role: Option<String>,
    /// Text of the message.
    #[serde(default)]
    pub content: String,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// Id that the client chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Time of sending.
    pub created_at: FileTime,
    /// Time of the last edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<FileTime>,
    /// Time of the deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<FileTime>,
    /// Revision of the conversation at which the message was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<FileNumber>,
}

impl MessageRecord {
    pub(super) fn check(&self, format: FileFormat, limits: &ImportLimits) -> LineResult<()> {
        self.ids()?;
        self.role()?;
        self.content(limits)?;
        match format {
            FileFormat::Exported => self.check_exported(),
            FileFormat::Foreign => self.check_foreign(limits),
        }
    }

    fn check_foreign(&self, limits: &ImportLimits) -> LineResult<()> {
        must_be_absent(&self.seq, "seq")?;
        must_be_absent(&self.rev, "rev")?;
        must_be_absent(&self.client_id, "clientId")?;
        validate_client_id(&self.id).map_err(|_| {
            LineProblem::new("id", "the id is not 1 to 128 bytes of printable text")
        })?;
        check_past("createdAt", self.created_at, limits)?;
        for (field, time) in [("editedAt", self.edited_at), ("deletedAt", self.deleted_at)] {
            let Some(time) = time else { continue };
            if time < self.created_at {
                return Err(LineProblem::new(field, "the time is before `createdAt`"));
            }
            check_past(field, time, limits)?;
        }
        Ok(())
    }

    fn check_exported(&self) -> LineResult<()> {
        let (seq, rev) = (required(&self.seq, "seq")?, required(&self.rev, "rev")?);
        required(&self.sender_role, "senderRole")?;
        if seq.is_zero() {
            return Err(LineProblem::new("seq", "the first message has the `seq` 1"));
        }
        if rev < seq {
            return Err(LineProblem::new(
                "rev",
                "`rev` is below `seq`, but it rises with every message",
            ));
        }
        if self.id.is_empty()
            || self.id.len() > MAX_MESSAGE_ID_BYTES
            || self.id.chars().any(char::is_control)
        {
            return Err(LineProblem::new(
                "id",
                "this is not the id of a message in Parlor",
            ));
        }
        let client_id = self.client_id.as_deref();
        client_id
            .map_or(Ok(()), validate_client_id)
            .map_err(LineProblem::of_error("clientId"))
    }

    pub(in crate::transfer) fn ids(&self) -> LineResult<(ConversationId, UserId)> {
        let conversation = ConversationId::new(&self.conversation_id);
        let conversation = conversation.map_err(LineProblem::of_id("conversationId"))?;
        let sender = UserId::new(&self.sender_id).map_err(LineProblem::of_id("senderId"))?;
        Ok((conversation, sender))
    }

    pub(in crate::transfer) fn role(&self) -> LineResult<Role> {
        let Some(name) = &self.sender_role else {
            return Ok(Role::User);
        };
        Role::parse(name).ok_or_else(|| {
            let text = format!("the role {name:?} is unknown; use user, admin or service");
            LineProblem::new("senderRole", text)
        })
    }

    /// Content, metadata and mentions; `None` for a deleted message, which has none.
    pub(in crate::transfer) fn content(
        &self,
        limits: &ImportLimits,
    ) -> LineResult<Option<ValidatedContent>> {
        if self.deleted_at.is_some() {
            if !self.content.is_empty() || self.metadata.is_some() {
                let text = "a deleted message has no content; remove `content` and `metadata`, or `deletedAt`";
                return Err(LineProblem::of_line(text));
            }
            return Ok(None);
        }
        let metadata = self
            .metadata
            .as_ref()
            .map(|it| serde_json::from_str::<Value>(it.get()));
        let metadata = metadata
            .transpose()
            .map_err(|error| LineProblem::new("metadata", error.to_string()))?;
        let content =
            ValidatedContent::new(self.content.clone(), metadata.as_ref(), &limits.messages);
        content
            .map(Some)
            .map_err(|error| LineProblem::of_line(error.to_string()))
    }

    /// The row of an exported record, as `tables::MESSAGES` lists its columns.
    pub(in crate::transfer) fn to_row(&self) -> CellRow {
        vec![
            text(&self.conversation_id),
            number(self.seq.unwrap_or_default().to_db()),
            text(&self.id),
            text(&self.sender_id),
            text(self.sender_role.as_deref().unwrap_or_default()),
            text(&self.content),
            optional_text(self.metadata.as_ref().map(|it| it.get())),
            optional_text(self.client_id.as_ref()),
            number(self.created_at.to_db()),
            CellValue::Number(self.edited_at.map(FileTime::to_db)),
            CellValue::Number(self.deleted_at.map(FileTime::to_db)),
            number(self.rev.unwrap_or_default().to_db()),
        ]
    }

    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        Self {
            record_type: RecordType::Message,
            conversation_id: cells.text(),
            seq: Some(FileNumber::from_db(cells.number())),
            id: cells.text(),
            sender_id: cells.text(),
            sender_role: Some(cells.text()),
            content: cells.text(),
            metadata: cells.optional_text().and_then(metadata_on_one_line),
            client_id: cells.optional_text(),
            created_at: FileTime::from_db(cells.number()),
            edited_at: cells.optional_number().map(FileTime::from_db),
            deleted_at: cells.optional_number().map(FileTime::from_db),
            rev: Some(FileNumber::from_db(cells.number())),
        }
    }
}

/// The metadata as it is stored. Text that is not JSON is left out, as in replies to clients.
fn metadata_on_one_line(text: String) -> Option<Box<RawValue>> {
    match text.contains(['\n', '\r']) {
        false => RawValue::from_string(text).ok(),
        true => serde_json::from_str::<Value>(&text)
            .and_then(|value| RawValue::from_string(value.to_string()))
            .ok(),
    }
}

/// A message that mentions a user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MentionRecord {
    /// Always `mention`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Mentioned user.
    pub user_id: String,
    /// Id of the conversation.
    pub conversation_id: String,
    /// `seq` of the message.
    pub seq: FileNumber,
}

impl MentionRecord {
    pub(super) fn check(&self) -> LineResult<()> {
        UserId::new(&self.user_id).map_err(LineProblem::of_id("userId"))?;
        self.conversation_id().map(drop)
    }

    pub(in crate::transfer) fn conversation_id(&self) -> LineResult<ConversationId> {
        ConversationId::new(&self.conversation_id).map_err(LineProblem::of_id("conversationId"))
    }

    /// The row of the record, as `tables::MENTIONS` lists its columns.
    pub(in crate::transfer) fn to_row(&self) -> CellRow {
        vec![
            text(&self.user_id),
            text(&self.conversation_id),
            number(self.seq.to_db()),
        ]
    }

    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        Self {
            record_type: RecordType::Mention,
            user_id: cells.text(),
            conversation_id: cells.text(),
            seq: FileNumber::from_db(cells.number()),
        }
    }
}
