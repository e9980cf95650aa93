//! Members, and how far they have received and read their conversations.

use serde::{Deserialize, Serialize};

use super::RecordType;
use super::conversation::check_past;
use crate::conversations::MemberRole;
use crate::database::copy::CellRow;
use crate::ids::{ConversationId, UserId};
use crate::transfer::error::{LineProblem, LineResult};
use crate::transfer::fields::{
    CellReader, FileNumber, FileTime, must_be_absent, number, required, text,
};
use crate::transfer::{FileFormat, ImportLimits};

/// A member of a conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRecord {
    /// Always `member`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Id of the conversation.
    pub conversation_id: String,
    /// Id of the user.
    pub user_id: String,
    /// Role of the member.
    #[serde(default = "default_role")]
    pub role: MemberRole,
    /// Time of the join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_at: Option<FileTime>,
    /// End of the mute; absent if the conversation is not muted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<FileTime>,
    /// `seq` of the newest message at the join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_seq: Option<FileNumber>,
    /// Version of the members after the join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_version: Option<FileNumber>,
}

fn default_role() -> MemberRole {
    MemberRole::Member
}

impl MemberRecord {
    pub(super) fn check(&self, format: FileFormat, limits: &ImportLimits) -> LineResult<()> {
        self.ids()?;
        match format {
            FileFormat::Exported => {
                required(&self.joined_at, "joinedAt")?;
                required(&self.joined_seq, "joinedSeq")?;
                required(&self.joined_version, "joinedVersion").map(drop)
            }
            FileFormat::Foreign => {
                must_be_absent(&self.joined_seq, "joinedSeq")?;
                must_be_absent(&self.joined_version, "joinedVersion")?;
                self.joined_at
                    .map_or(Ok(()), |at| check_past("joinedAt", at, limits))
            }
        }
    }

    pub(in crate::transfer) fn ids(&self) -> LineResult<(ConversationId, UserId)> {
        member_ids(&self.conversation_id, &self.user_id)
    }

    /// The row of an exported record, as `tables::MEMBERS` lists its columns. The line of the type `read` sets the
    /// positions.
    pub(in crate::transfer) fn to_row(&self) -> CellRow {
        let joined_seq = self.joined_seq.unwrap_or_default().to_db();
        vec![
            text(&self.conversation_id),
            text(&self.user_id),
            text(self.role.name()),
            number(self.joined_at.map_or(0, FileTime::to_db)),
            number(joined_seq),
            number(self.joined_version.unwrap_or_default().to_db()),
            number(self.muted_until.map_or(0, FileTime::to_db)),
            number(0),
            number(0),
            number(joined_seq),
            number(0),
            number(0),
        ]
    }

    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        Self {
            record_type: RecordType::Member,
            conversation_id: cells.text(),
            user_id: cells.text(),
            role: MemberRole::parse(&cells.text()).unwrap_or(MemberRole::Member),
            joined_at: Some(FileTime::from_db(cells.number())),
            joined_seq: Some(FileNumber::from_db(cells.number())),
            joined_version: Some(FileNumber::from_db(cells.number())),
            muted_until: FileTime::from_db_nonzero(cells.number()),
        }
    }
}

/// How far a member has received and read a conversation. A file of another system names the last message that was
/// read, by `seq`, by `messageId`, or by a time. The other fields are in files that Parlor exported.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadRecord {
    /// Always `read`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Id of the conversation.
    pub conversation_id: String,
    /// Id of the user.
    pub user_id: String,
    /// Number of the last message that was read, in the order of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<FileNumber>,
    /// Id of the last message that was read, as in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Time up to which all messages were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<FileTime>,
    /// `seq` of the last message that was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_seq: Option<FileNumber>,
    /// `seq` of the last message that was read, for receipts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_seq: Option<FileNumber>,
    /// Messages up to this `seq` do not count as unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub badge_seq: Option<FileNumber>,
    /// Number of the member's own messages after `badgeSeq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_after: Option<FileNumber>,
    /// Version of the positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position_version: Option<FileNumber>,
}

impl ReadRecord {
    pub(super) fn check(&self, format: FileFormat) -> LineResult<()> {
        self.ids()?;
        if format == FileFormat::Foreign {
            must_be_absent(&self.delivered_seq, "deliveredSeq")?;
            must_be_absent(&self.read_seq, "readSeq")?;
            must_be_absent(&self.badge_seq, "badgeSeq")?;
            must_be_absent(&self.own_after, "ownAfter")?;
            must_be_absent(&self.position_version, "positionVersion")?;
            let given = [
                self.seq.is_some(),
                self.message_id.is_some(),
                self.at.is_some(),
            ];
            if given.iter().filter(|it| **it).count() != 1 {
                return Err(LineProblem::of_line(
                    "name the last message that was read by exactly one of `seq`, `messageId` and `at`",
                ));
            }
            return Ok(());
        }
        must_be_absent(&self.seq, "seq")?;
        must_be_absent(&self.message_id, "messageId")?;
        must_be_absent(&self.at, "at")?;
        required(&self.delivered_seq, "deliveredSeq")?;
        required(&self.read_seq, "readSeq")?;
        required(&self.badge_seq, "badgeSeq")?;
        required(&self.own_after, "ownAfter")?;
        required(&self.position_version, "positionVersion").map(drop)
    }

    pub(in crate::transfer) fn ids(&self) -> LineResult<(ConversationId, UserId)> {
        member_ids(&self.conversation_id, &self.user_id)
    }

    /// The positions of an exported record, in the order of the columns.
    pub(in crate::transfer) fn positions(&self) -> [FileNumber; 5] {
        [
            self.delivered_seq,
            self.read_seq,
            self.badge_seq,
            self.own_after,
            self.position_version,
        ]
        .map(Option::unwrap_or_default)
    }

    /// Reads a row of `tables::MEMBERS`.
    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        let (conversation_id, user_id, _role) = (cells.text(), cells.text(), cells.text());
        let [_joined_at, _joined_seq, _joined_version, _muted_until] =
            [(); 4].map(|()| cells.number());
        let [delivered, read, badge, own_after, version] =
            [(); 5].map(|()| Some(FileNumber::from_db(cells.number())));
        Self {
            record_type: RecordType::Read,
            conversation_id,
            user_id,
            seq: None,
            message_id: None,
            at: None,
            delivered_seq: delivered,
            read_seq: read,
            badge_seq: badge,
            own_after,
            position_version: version,
        }
    }
}

fn member_ids(conversation: &str, user: &str) -> LineResult<(ConversationId, UserId)> {
    let conversation =
        ConversationId::new(conversation).map_err(LineProblem::of_id("conversationId"))?;
    let user = UserId::new(user).map_err(LineProblem::of_id("userId"))?;
    Ok((conversation, user))
}
