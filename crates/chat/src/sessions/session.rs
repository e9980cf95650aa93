//! What a session is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::context::Timestamp;
use crate::ids::{DeviceId, UserId};

/// The device of those who name none.
pub(super) const DEFAULT_DEVICE_ID: &str = "api";

/// What a session allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SessionStatus)]
pub enum SessionStatus {
    /// Everything.
    Login,
    /// To read.
    Anonymous,
    /// Nothing.
    Blocked,
}

impl SessionStatus {
    /// The word in keys and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Anonymous => "anonymous",
            Self::Blocked => "blocked",
        }
    }

    /// The status of a word.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Login, Self::Anonymous, Self::Blocked]
            .into_iter()
            .find(|status| status.name() == word)
    }
}

/// A session of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSession {
    /// Whose.
    pub user_id: UserId,
    /// The device that began it.
    pub device_id: DeviceId,
    /// What it allows.
    pub status: SessionStatus,
    /// When it began.
    pub login_time: Timestamp,
    /// When it was last used, written every half minute.
    pub last_seen: Timestamp,
    /// Where it began; empty if that is not known.
    pub ip_address: String,
}

impl UserSession {
    /// The session of somebody of whom nothing is known but that they are blocked.
    pub(super) fn blocked_without_session(user: &UserId, since: Timestamp) -> Self {
        Self {
            user_id: user.clone(),
            device_id: default_device_id(),
            status: SessionStatus::Blocked,
            login_time: since,
            last_seen: since,
            ip_address: String::new(),
        }
    }

    /// The fields of the documented hash.
    pub(super) fn to_hash_fields(&self) -> [(&'static str, String); 6] {
        let active = self.status != SessionStatus::Blocked;
        [
            ("device_id", self.device_id.to_string()),
            ("login_time", self.login_time.as_millis().to_string()),
            ("last_seen", self.last_seen.as_millis().to_string()),
            ("status", self.status.name().to_owned()),
            ("active", active.to_string()),
            ("ip_address", self.ip_address.clone()),
        ]
    }

    /// From `status`, `active`, `device_id`, `login_time`, `last_seen`, `ip_address` of the hash, which others may have
    /// written: what makes no sense reads as if it were not there, and never as more than it allows.
    pub(super) fn from_hash_fields(user: &UserId, held: [&str; 6]) -> Self {
        let [status, active, device, login, seen, address] = held;
        let moment = |text: &str| Timestamp(text.parse().unwrap_or_default());
        let status = match (SessionStatus::named(status), active) {
            (Some(SessionStatus::Blocked), _) | (_, "false") => SessionStatus::Blocked,
            (Some(status), _) => status,
            (None, _) => SessionStatus::Anonymous,
        };
        Self {
            user_id: user.clone(),
            device_id: DeviceId::new(device).unwrap_or_else(|_| default_device_id()),
            status,
            login_time: moment(login),
            last_seen: moment(seen),
            ip_address: address.to_owned(),
        }
    }
}

pub(super) fn default_device_id() -> DeviceId {
    DeviceId::new(DEFAULT_DEVICE_ID).expect("the default device id is valid")
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionEndReason {
    /// The user was blocked.
    Blocked,
    /// The user, an admin or another service ended it, or its time was over.
    Logout,
    /// The user began another one, and may have only one.
    Replaced,
}

impl SessionEndReason {
    /// The word on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Logout => "logout",
            Self::Replaced => "replaced",
        }
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        [Self::Blocked, Self::Logout, Self::Replaced]
            .into_iter()
            .find(|reason| reason.name() == word)
    }
}
