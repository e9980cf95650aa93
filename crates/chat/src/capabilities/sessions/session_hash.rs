//! The documented hash `user:{user}` and what Parlor knows about it. Other services write the same hash.
//!
//! Invariant: a hash without `device_id` is not a session. It belongs to another application.

use std::str::FromStr;

use super::model::{SessionStatus, UserSession};
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// A field of the hash and its value.
pub(super) type HashField = (&'static str, String);

/// Content of the key `user:{user}`.
#[derive(Debug)]
pub(super) enum SessionKeyContent {
    /// The key does not exist.
    Missing,
    /// The key has another type, or is a hash without `device_id`.
    Foreign,
    /// A session.
    Session(SessionHash),
}

impl SessionKeyContent {
    /// The session, if there is one.
    pub(super) fn session(&self) -> Option<&SessionHash> {
        match self {
            Self::Session(hash) => Some(hash),
            Self::Missing | Self::Foreign => None,
        }
    }
}

/// Fields of a session hash as they are stored; a missing field is empty.
#[derive(Debug, Clone)]
pub(super) struct SessionHash {
    pub(super) status: String,
    pub(super) active: String,
    pub(super) device_id: String,
    pub(super) login_time: String,
    pub(super) last_seen: String,
    pub(super) ip_address: String,
}

impl SessionHash {
    /// True if one of the two fields says that the user is blocked.
    pub(super) fn is_blocked(&self) -> bool {
        self.status == SessionStatus::Blocked.name() || self.active == "false"
    }

    /// True if both fields say that the user is blocked, so every reader of the hash sees it.
    pub(super) fn is_blocked_for_every_reader(&self) -> bool {
        self.status == SessionStatus::Blocked.name() && self.active == "false"
    }

    /// Access that the hash gives. A missing status is `login` if `active` is `true`; an unknown status permits
    /// reading.
    pub(super) fn status(&self) -> SessionStatus {
        match SessionStatus::parse(&self.status) {
            _ if self.is_blocked() => SessionStatus::Blocked,
            Some(status) => status,
            None if self.status.is_empty() && self.active == "true" => SessionStatus::Login,
            None => SessionStatus::Anonymous,
        }
    }

    /// Start of the session; `None` if it is missing or no number.
    pub(super) fn login_time(&self) -> Option<Timestamp> {
        parse_time(&self.login_time)
    }

    /// Last use of the session. A session without this field has never been used, so it counts as used at its start;
    /// without a start, now.
    pub(super) fn last_seen(&self, now: Timestamp) -> Timestamp {
        match self.last_seen.is_empty() {
            true => self.login_time().unwrap_or(now),
            false => parse_time(&self.last_seen).unwrap_or(Timestamp(0)),
        }
    }

    /// True if the session was last used before this time. A service may have written no time.
    pub(super) fn has_expired(&self, expiry_cutoff: Timestamp) -> bool {
        parse_time(&self.last_seen).is_some_and(|last_seen| last_seen < expiry_cutoff)
    }

    /// The session that the hash describes. A missing start is `now`.
    pub(super) fn to_session(&self, user: &UserId, now: Timestamp) -> UserSession {
        let device = DeviceId::new(self.device_id.as_str());
        UserSession {
            user_id: user.clone(),
            device_id: device.unwrap_or_else(|_| DeviceId::default_for_requests()),
            status: self.status(),
            login_time: self.login_time().unwrap_or(now),
            last_seen: self.last_seen(now),
            ip_address: self.ip_address.clone(),
        }
    }

    /// True if status or device differ from the session of the row.
    pub(super) fn differs_from(&self, row: &UserSession, now: Timestamp) -> bool {
        let session = self.to_session(&row.user_id, now);
        (session.status, &session.device_id) != (row.status, &row.device_id)
    }

    /// The fields that must be written so that the hash describes this session. `last_seen` is written only if it is
    /// missing, because every request renews it.
    pub(super) fn fields_to_match(&self, row: &UserSession, now: Timestamp) -> Vec<HashField> {
        let session = self.to_session(&row.user_id, now);
        let is_same = |name: &str| match name {
            "device_id" => session.device_id == row.device_id,
            "status" | "active" => session.status == row.status,
            "login_time" => self.login_time() == Some(row.login_time),
            "last_seen" => !self.last_seen.is_empty(),
            _ => self.ip_address == row.ip_address,
        };
        let fields = row.to_hash_fields().into_iter();
        fields.filter(|(name, _)| !is_same(name)).collect()
    }

    /// The documented fields that the hash lacks, with the values of the session.
    pub(super) fn missing_fields(&self, session: &UserSession) -> Vec<HashField> {
        let is_missing = |name: &str| match name {
            "status" => self.status.is_empty(),
            "active" => self.active.is_empty(),
            "login_time" => self.login_time.is_empty(),
            "last_seen" => self.last_seen.is_empty(),
            _ => false,
        };
        let fields = session.to_hash_fields().into_iter();
        fields.filter(|(name, _)| is_missing(name)).collect()
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint(format!(
            "{}|{}|{}|{}",
            self.login_time, self.active, self.status, self.device_id
        ))
    }
}

fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok().map(Timestamp)
}

/// `login_time|active|status|device_id` of a hash; empty for a missing hash. A request compares it with the stored
/// fingerprint to find changes by other services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Fingerprint(String);

impl Fingerprint {
    fn field(&self, index: usize) -> &str {
        self.0.splitn(4, '|').nth(index).unwrap_or_default()
    }

    pub(super) fn login_time(&self) -> &str {
        self.field(0)
    }

    pub(super) fn active(&self) -> &str {
        self.field(1)
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.active() == "false" || self.field(2) == SessionStatus::Blocked.name()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Value of the check key: `revoked_before|epoch|fingerprint`. It says when Parlor last compared the hash with the rows,
/// and what the hash contained.
#[derive(Debug, Clone)]
pub(super) struct SyncRecord {
    pub(super) epoch: u64,
    pub(super) fingerprint: Fingerprint,
}

impl FromStr for SyncRecord {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '|').skip(1);
        let (Some(epoch), Some(fingerprint)) = (parts.next(), parts.next()) else {
            return Err(());
        };
        Ok(Self {
            epoch: epoch.parse().map_err(drop)?,
            fingerprint: Fingerprint(fingerprint.to_owned()),
        })
    }
}
