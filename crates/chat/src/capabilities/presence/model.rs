//! Types of presence.

use redis::{FromRedisValue, ParsingError, Value};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{DeviceId, NodeId, SocketId, UserId};
use crate::keys::named_enum;

/// Maximum length of a client description in bytes; a longer one is truncated.
const MAX_CLIENT_INFO_BYTES: usize = 256;

named_enum! {
    /// Status of a user.
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum PresenceStatus {
        /// The user is connected.
        Online = "online",
        /// Connected, but away.
        Away = "away",
        /// Connected, do not disturb.
        Busy = "busy",
        /// Not connected; as a wanted status: invisible.
        Offline = "offline",
    }
}

impl FromRedisValue for PresenceStatus {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let word = String::from_redis_value(value)?;
        Self::parse(&word).ok_or_else(|| ParsingError::from(format!("{word:?} is not a status")))
    }
}

/// A device of a user, with one of its connections. Two browser tabs that share a device id are two connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Owner of the device.
    pub user: UserId,
    /// Id of the device: the socket id, unless the client chose an id.
    pub id: DeviceId,
    /// Socket that holds the device on this node. `None` for a device that sends requests only; its heartbeats alone
    /// keep it present.
    pub socket: Option<SocketId>,
    /// Client description, for example the user agent; set it with [`with_client_info`](Self::with_client_info).
    pub client_info: Option<String>,
}

impl Device {
    /// Creates the device of a socket of this node.
    pub fn with_socket(user: UserId, socket: SocketId) -> Self {
        Self {
            user,
            id: socket.clone().into(),
            socket: Some(socket),
            client_info: None,
        }
    }

    /// Creates a device without a socket.
    pub fn without_socket(user: UserId, id: DeviceId) -> Self {
        Self {
            user,
            id,
            socket: None,
            client_info: None,
        }
    }

    /// Id of the device's entry in the state and in the documented keys: the socket id, or the device id of a device
    /// without a socket.
    pub(super) fn entry_id(&self) -> DeviceId {
        match &self.socket {
            Some(socket) => socket.clone().into(),
            None => self.id.clone(),
        }
    }

    /// Sets the client description, of which the first 256 bytes are kept.
    #[must_use]
    pub fn with_client_info(mut self, info: &str) -> Self {
        let end = info.floor_char_boundary(MAX_CLIENT_INFO_BYTES);
        self.client_info = Some(info[..end].to_owned());
        self
    }
}

/// Visible status of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserStatus {
    /// Id of the user.
    pub user_id: UserId,
    /// Visible status.
    pub status: PresenceStatus,
    /// Time of the user's last activity, ISO 8601: connect, heartbeat (at most once a minute), or going offline; null if
    /// unknown.
    pub last_seen: Option<String>,
    /// Rises with each change; 0 if the user is unknown.
    pub version: u64,
    /// True if the store is unavailable; `status` is then not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
    /// True if only another service that writes the documented keys keeps the user online.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

impl UserStatus {
    /// Status of a user while the store is unavailable.
    pub(super) fn unknown(user_id: UserId) -> Self {
        Self {
            user_id,
            status: PresenceStatus::Offline,
            last_seen: None,
            version: 0,
            degraded: true,
            external: false,
        }
    }
}

/// A live device. Of several connections, the newest is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveDevice {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Node that registered the connection.
    pub server_id: NodeId,
    /// Time of the connection, ISO 8601.
    pub connected_at: String,
    /// Time at which the device expires without a heartbeat, ISO 8601.
    pub expires_at: String,
    /// Client description, for example the user agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}
