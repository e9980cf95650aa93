//! Users and their sessions.

use serde::{Deserialize, Serialize};

use super::RecordType;
use super::conversation::check_past;
use crate::clock::Timestamp;
use crate::database::copy::CellRow;
use crate::ids::{DeviceId, UserId};
use crate::sessions::{MAX_BLOCK_REASON_BYTES, SessionStatus};
use crate::transfer::error::{LineProblem, LineResult};
use crate::transfer::fields::{CellReader, FileTime, must_be_absent, number, optional_text, text};
use crate::transfer::{FileFormat, ImportLimits};

/// Maximum length of an IP address in bytes.
const MAX_IP_ADDRESS_BYTES: usize = 64;

/// A user: block and revoked tokens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserRecord {
    /// Always `user`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Id of the user.
    pub id: String,
    /// Start of the block; absent if the user is not blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_at: Option<FileTime>,
    /// Reason for the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    /// True if another service has blocked the user and may lift the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_adopted: Option<bool>,
    /// Tokens issued up to this time begin no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_before: Option<FileTime>,
}

impl UserRecord {
    pub(super) fn check(&self, format: FileFormat, limits: &ImportLimits) -> LineResult<()> {
        self.user_id()?;
        let reason = self.blocked_reason.as_deref();
        if reason.is_some_and(|it| it.len() > MAX_BLOCK_REASON_BYTES || it.contains('\0')) {
            let text = format!("the reason has a NUL or more than {MAX_BLOCK_REASON_BYTES} bytes");
            return Err(LineProblem::new("blockedReason", text));
        }
        match format {
            FileFormat::Exported => Ok(()),
            FileFormat::Foreign if reason.is_some() && self.blocked_at.is_none() => {
                let text = "a reason needs the time of the block; add `blockedAt`";
                Err(LineProblem::new("blockedReason", text))
            }
            FileFormat::Foreign => {
                must_be_absent(&self.block_adopted, "blockAdopted")?;
                let times = [
                    ("blockedAt", self.blocked_at),
                    ("revokedBefore", self.revoked_before),
                ];
                let mut times = times
                    .into_iter()
                    .filter_map(|(field, time)| Some((field, time?)));
                times.try_for_each(|(field, time)| check_past(field, time, limits))
            }
        }
    }

    fn user_id(&self) -> LineResult<UserId> {
        UserId::new(&self.id).map_err(LineProblem::of_id("id"))
    }

    /// The row of the record, as `tables::USERS` lists its columns.
    pub(in crate::transfer) fn to_row(&self) -> CellRow {
        vec![
            text(&self.id),
            crate::database::copy::CellValue::Number(self.blocked_at.map(FileTime::to_db)),
            optional_text(self.blocked_reason.as_ref()),
            number(self.revoked_before.map_or(0, FileTime::to_db)),
            number(i64::from(self.block_adopted.unwrap_or_default())),
        ]
    }

    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        Self {
            record_type: RecordType::User,
            id: cells.text(),
            blocked_at: cells.optional_number().map(FileTime::from_db),
            blocked_reason: cells.optional_text(),
            revoked_before: FileTime::from_db_nonzero(cells.number()),
            block_adopted: (cells.number() != 0).then_some(true),
        }
    }
}

/// The session of a user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionRecord {
    /// Always `session`.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Owner of the session.
    pub user_id: String,
    /// Device that began the session.
    pub device_id: String,
    /// `login` or `anonymous`.
    pub status: SessionStatus,
    /// Start of the session.
    pub login_at: FileTime,
    /// Last use of the session.
    pub last_seen: FileTime,
    /// Address from which the session began; absent if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip_address: String,
}

impl SessionRecord {
    pub(super) fn check(&self) -> LineResult<()> {
        UserId::new(&self.user_id).map_err(LineProblem::of_id("userId"))?;
        DeviceId::new(&self.device_id).map_err(LineProblem::of_id("deviceId"))?;
        if self.status == SessionStatus::Blocked {
            let text = "a block is a field of the user; use `login` or `anonymous`";
            return Err(LineProblem::new("status", text));
        }
        let address = &self.ip_address;
        if address.len() > MAX_IP_ADDRESS_BYTES || address.chars().any(char::is_control) {
            return Err(LineProblem::new("ipAddress", "this is not an IP address"));
        }
        Ok(())
    }

    /// The row of the record, as `tables::SESSIONS` lists its columns.
    pub(in crate::transfer) fn to_row(&self) -> CellRow {
        vec![
            text(&self.user_id),
            text(&self.device_id),
            text(self.status.name()),
            number(self.login_at.to_db()),
            number(self.last_seen.to_db()),
            text(&self.ip_address),
        ]
    }

    pub(in crate::transfer) fn from_row(row: CellRow) -> Self {
        let mut cells = CellReader::new(row);
        Self {
            record_type: RecordType::Session,
            user_id: cells.text(),
            device_id: cells.text(),
            status: SessionStatus::parse(&cells.text()).unwrap_or(SessionStatus::Login),
            login_at: FileTime(Timestamp(cells.number().max(0).unsigned_abs())),
            last_seen: FileTime(Timestamp(cells.number().max(0).unsigned_abs())),
            ip_address: cells.text(),
        }
    }
}
