//! Types of sessions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};
use crate::keys::named_enum;

named_enum! {
    /// Access that a session gives.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    #[schema(as = SessionStatus)]
    pub enum SessionStatus {
        /// Full access.
        Login = "login",
        /// Read only.
        Anonymous = "anonymous",
        /// No access.
        Blocked = "blocked",
    }
}

/// Session of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSession {
    /// Owner of the session.
    pub user_id: UserId,
    /// Device that began the session.
    pub device_id: DeviceId,
    /// Access that the session gives.
    pub status: SessionStatus,
    /// Start of the session.
    pub login_time: Timestamp,
    /// Last use of the session, accurate to about 30 seconds.
    pub last_seen: Timestamp,
    /// IP address from which the session began; empty if unknown.
    pub ip_address: String,
}

impl UserSession {
    /// Session of a blocked user without a session row.
    pub(super) fn blocked_without_session(user: &UserId, since: Timestamp) -> Self {
        Self {
            user_id: user.clone(),
            device_id: DeviceId::default_for_requests(),
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
}

named_enum! {
    /// Why a session ended.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SessionEndReason {
        /// The user was blocked.
        Blocked = "blocked",
        /// The user, an admin or another service ended the session, or it expired.
        Logout = "logout",
        /// The user began another session, and only one is allowed.
        Replaced = "replaced",
    }
}
