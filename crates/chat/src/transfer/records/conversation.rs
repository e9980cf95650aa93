//! Conversations, and the ids of deleted ones.

use serde::{Deserialize, Serialize};

use super::RecordType;
use crate::conversations::{
    ConversationKind, ConversationPatch, HistoryVisibility, MAX_IDEMPOTENCY_KEY_BYTES,
    SupportPriority, direct_pair, validate_patch,
};
use crate::database::copy::CellRow;
use crate::ids::{ConversationId, UserId};
use crate::transfer::error::{LineProblem, LineResult};
use crate::transfer::fields::{
    CellReader, FileNumber, FileTime, must_be_absent, number, optional_text, required, text,
};
use crate::transfer::{FileFormat, ImportLimits};

/// A conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationRecord {
    /// Always `conversation`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Id of the conversation.
    pub id: String,
    /// Kind of the conversation.
    pub kind: ConversationKind,
    /// Title of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The two users of a direct conversation; absent for other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// True if every user may join the group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Whether members see messages that were sent before they joined.
    #[serde(default = "default_history")]
    pub history: HistoryVisibility,
    /// Priority of a support conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<SupportPriority>,
    /// User who created the conversation; absent if a service created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Time of the creation.
    pub created_at: FileTime,
    /// Key with which the creation can be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// `seq` of the newest message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<FileNumber>,
    /// Time of the newest message, or of the creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<FileTime>,
    /// Revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rev: Option<FileNumber>,
    /// Version of the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members_version: Option<FileNumber>,
    /// Number of members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_count: Option<FileNumber>,
    /// Version of the fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<FileNumber>,
}

fn default_history() -> HistoryVisibility {
    HistoryVisibility::All
}

impl ConversationRecord {
    pub(super) fn check(&self, format: FileFormat, limits: &ImportLimits) -> LineResult<()> {
        self.conversation_id()?;
        self.pair()?;
        let patch = ConversationPatch {
            title: self.title.clone(),
            open: Some(self.open),
            history: Some(self.history),
            priority: self.priority,
        };
        validate_patch(self.kind, &patch)
            .map_err(|error| LineProblem::of_line(error.to_string()))?;
        if let Some(user) = &self.created_by {
            UserId::new(user).map_err(LineProblem::of_id("createdBy"))?;
        }
        match format {
            FileFormat::Exported => self.check_exported(),
            FileFormat::Foreign => {
                must_be_absent(&self.idempotency_key, "idempotencyKey")?;
                must_be_absent(&self.last_seq, "lastSeq")?;
                must_be_absent(&self.last_at, "lastAt")?;
                must_be_absent(&self.rev, "rev")?;
                must_be_absent(&self.members_version, "membersVersion")?;
                must_be_absent(&self.member_count, "memberCount")?;
                must_be_absent(&self.version, "version")?;
                check_past("createdAt", self.created_at, limits)
            }
        }
    }

    fn check_exported(&self) -> LineResult<()> {
        if self.idempotency_key.as_ref().is_some_and(|key| {
            key.is_empty()
                || key.len() > MAX_IDEMPOTENCY_KEY_BYTES
                || key.chars().any(char::is_control)
        }) {
            let text =
                format!("the key is not 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes of visible text");
            return Err(LineProblem::new("idempotencyKey", text));
        }
        let (last_seq, rev) = (
            required(&self.last_seq, "lastSeq")?,
            required(&self.rev, "rev")?,
        );
        if rev < last_seq {
            return Err(LineProblem::new(
                "rev",
                "`rev` is below `lastSeq`, but it rises with every message",
            ));
        }
        required(&self.members_version, "membersVersion")?;
        required(&self.member_count, "memberCount")?;
        required(&self.version, "version")?;
        match required(&self.last_at, "lastAt")? < self.created_at {
            true => Err(LineProblem::new("lastAt", "the time is before `createdAt`")),
            false => Ok(()),
        }
    }

    pub(in crate::transfer) fn conversation_id(&self) -> LineResult<ConversationId> {
        ConversationId::new(&self.id).map_err(LineProblem::of_id("id"))
    }

    /// The two users of a direct conversation, and their text in the column `pair`.
    pub(in crate::transfer) fn pair(&self) -> LineResult<Option<(Vec<UserId>, String)>> {
        let Some(members) = &self.members else {
            return match self.kind {
                ConversationKind::Direct => Err(LineProblem::new(
                    "members",
                    "a direct conversation needs the ids of its two users",
                )),
                ConversationKind::Group | ConversationKind::Support => Ok(None),
            };
        };
        if self.kind != ConversationKind::Direct {
            let text = "only a direct conversation has this field; write a line of the type `member` for each member";
            return Err(LineProblem::new("members", text));
        }
        let users: Result<Vec<_>, _> = members.iter().map(UserId::new).collect();
        let users = users.map_err(LineProblem::of_id("members"))?;
        match &users[..] {
            [one, other] if one != other => {
                let pair = direct_pair(one, other);
                Ok(Some((users, pair)))
            }
            _ => Err(LineProblem::new(
                "members",
                "a direct conversation has two different users",
            )),
        }
    }

    /// The row of an exported record, as `tables::CONVERSATIONS` lists its columns.
    pub(in crate::transfer) fn to_row(&self) -> LineResult<CellRow> {
        let zero = FileNumber::default;
        Ok(vec![
            text(&self.id),
            text(self.kind.name()),
            optional_text(self.title.as_ref()),
            optional_text(self.pair()?.map(|(_, pair)| pair)),
            number(i64::from(self.open)),
            text(self.history.name()),
            optional_text(self.priority.map(SupportPriority::name)),
            text(self.created_by.as_deref().unwrap_or_default()),
            number(self.created_at.to_db()),
            optional_text(self.idempotency_key.as_ref()),
            number(self.last_seq.unwrap_or_else(zero).to_db()),
            number(self.last_at.unwrap_or(self.created_at).to_db()),
            number(self.rev.unwrap_or_else(zero).to_db()),
            number(self.members_version.unwrap_or_else(zero).to_db()),
            number(self.member_count.unwrap_or_else(zero).to_db()),
            number(self.version.unwrap_or_else(zero).to_db()),
        ])
    }

    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        let id = cells.text();
        let kind = ConversationKind::parse(&cells.text()).unwrap_or(ConversationKind::Group);
        let title = cells.optional_text();
        let pair = cells.optional_text();
        let pair = pair.map(|pair| pair.split(' ').map(str::to_owned).collect());
        let open = cells.number() != 0;
        let history = HistoryVisibility::parse(&cells.text()).unwrap_or(HistoryVisibility::All);
        let priority = cells.optional_text();
        Self {
            record_type: RecordType::Conversation,
            id,
            kind,
            title,
            members: pair,
            open,
            history,
            priority: priority.and_then(|name| SupportPriority::parse(&name)),
            created_by: cells.optional_text().filter(|user| !user.is_empty()),
            created_at: FileTime::from_db(cells.number()),
            idempotency_key: cells.optional_text(),
            last_seq: Some(FileNumber::from_db(cells.number())),
            last_at: Some(FileTime::from_db(cells.number())),
            rev: Some(FileNumber::from_db(cells.number())),
            members_version: Some(FileNumber::from_db(cells.number())),
            member_count: Some(FileNumber::from_db(cells.number())),
            version: Some(FileNumber::from_db(cells.number())),
        }
    }
}

/// Fails for a time in a file of another system that is later than now.
pub(super) fn check_past(field: &str, time: FileTime, limits: &ImportLimits) -> LineResult<()> {
    match time.0 > limits.now {
        true => Err(LineProblem::new(
            field,
            format!("the time {time} is in the future"),
        )),
        false => Ok(()),
    }
}

/// Id of a deleted conversation, which is never used again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeletedConversationRecord {
    /// Always `deletedConversation`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Id that the conversation had.
    pub id: String,
    /// Time of the deletion.
    pub deleted_at: FileTime,
}

impl DeletedConversationRecord {
    pub(super) fn check(&self) -> LineResult<()> {
        ConversationId::new(&self.id).map_err(LineProblem::of_id("id"))?;
        Ok(())
    }

    /// The row of the record, as `tables::DELETED_CONVERSATIONS` lists its columns.
    pub(in crate::transfer) fn to_row(&self) -> CellRow {
        vec![text(&self.id), number(self.deleted_at.to_db())]
    }

    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        Self {
            record_type: RecordType::DeletedConversation,
            id: cells.text(),
            deleted_at: FileTime::from_db(cells.number()),
        }
    }
}
