//! What presence is asked and what it answers.

use redis::{FromRedisValue, ParsingError, Value};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{DeviceId, NodeId, SocketId, UserId};

/// How a user is seen, or wants to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PresenceStatus {
    /// Here.
    Online,
    /// Connected, and not looking.
    Away,
    /// Connected, and not to be disturbed.
    Busy,
    /// Not connected; as a wish: invisible.
    Offline,
}

impl PresenceStatus {
    /// The word in keys and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Away => "away",
            Self::Busy => "busy",
            Self::Offline => "offline",
        }
    }

    /// The status of a word.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Online, Self::Away, Self::Busy, Self::Offline]
            .into_iter()
            .find(|status| status.name() == word)
    }
}

impl FromRedisValue for PresenceStatus {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let word = String::from_redis_value(value)?;
        Self::named(&word).ok_or_else(|| ParsingError::from(format!("{word:?} is not a status")))
    }
}

/// A device of a user that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Whose it is.
    pub user: UserId,
    /// What it is called; the socket's id unless the client gave it a name.
    pub id: DeviceId,
    /// The socket by which this node holds it; none for one that comes by requests and lives by its beats alone.
    pub socket: Option<SocketId>,
    /// What the client says about it; the first 256 bytes are kept.
    pub info: Option<String>,
}

impl Device {
    /// A device that is a socket of this node.
    pub fn with_socket(user: UserId, socket: SocketId) -> Self {
        Self {
            user,
            id: socket.clone().into(),
            socket: Some(socket),
            info: None,
        }
    }

    /// A device that comes by requests.
    pub fn without_socket(user: UserId, id: DeviceId) -> Self {
        Self {
            user,
            id,
            socket: None,
            info: None,
        }
    }
}

/// How a user is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserStatus {
    /// Who.
    pub user_id: UserId,
    /// How.
    pub status: PresenceStatus,
    /// When they were last seen to leave, in ISO 8601; null if never.
    pub last_seen: Option<String>,
    /// Rises with each change; 0 if nothing is known.
    pub version: u64,
    /// The store did not answer, and `offline` is a guess.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
}

impl UserStatus {
    /// What is said of a user while the store is away.
    pub(super) fn unknown(user_id: UserId) -> Self {
        Self {
            user_id,
            status: PresenceStatus::Offline,
            last_seen: None,
            version: 0,
            degraded: true,
        }
    }
}

/// A live device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveDevice {
    /// What it is called.
    pub device_id: DeviceId,
    /// The node that registered it.
    pub server_id: NodeId,
    /// When it connected, in ISO 8601.
    pub connected_at: String,
    /// When it lapses without a beat, in ISO 8601.
    pub expires_at: String,
    /// What the client says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}
