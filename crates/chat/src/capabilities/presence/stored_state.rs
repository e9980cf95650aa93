//! The state of a user as it is stored, see `parlor:presence:{user}` in `keys.rs`.

use std::collections::HashMap;

use redis::{FromRedisValue, ParsingError, Value};

use super::model::LiveDevice;
use super::register::NO_SOCKET;
use crate::clock::Timestamp;
use crate::ids::{DeviceId, NodeId, UserId};

/// Fields of a state.
#[derive(Debug, Default)]
pub(super) struct StoredState(HashMap<String, String>);

/// Entry of a device, `node#boot_id|deadline|connectedAt` and `|device` if the device has another id than the entry.
#[derive(Debug)]
pub(super) struct DeviceEntry<'a> {
    node: &'a str,
    boot_id: &'a str,
    /// The device counts until this time.
    pub(super) deadline: Timestamp,
    connected_at: &'a str,
    device: &'a str,
}

impl StoredState {
    /// Fields that decide the status.
    pub(super) const STATUS_FIELDS: [&'static str; 4] = ["s", "v", "seen", "until"];

    /// Reads the reply of `HGETALL`. A reply of another type counts as no state.
    pub(super) fn from_hash(reply: Value) -> Self {
        Self(redis::from_redis_value(reply).unwrap_or_default())
    }

    /// Reads the reply of `HMGET` with [`STATUS_FIELDS`](Self::STATUS_FIELDS).
    pub(super) fn from_status_fields(reply: Value) -> Self {
        let values: Vec<Option<String>> = redis::from_redis_value(reply).unwrap_or_default();
        let fields = Self::STATUS_FIELDS.into_iter().zip(values);
        let fields = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Self(fields.collect())
    }

    /// Value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Time, ms, in a field; 0 if it is missing.
    pub(super) fn time(&self, name: &str) -> u64 {
        let time = self.field(name).and_then(|it| it.parse().ok());
        time.unwrap_or(0)
    }

    /// The latest deadline.
    pub(super) fn deadline(&self) -> Timestamp {
        Timestamp(self.time("until"))
    }

    /// True if the state has an entry with this id.
    pub(super) fn has_device(&self, id: &str) -> bool {
        self.0.contains_key(&format!("d:{id}"))
    }

    /// Client description of an entry.
    pub(super) fn client_info(&self, id: &str) -> Option<String> {
        let info = self.field(&format!("i:{id}"))?;
        serde_json::from_str(info).ok()
    }

    /// The devices by the id of their entry.
    pub(super) fn devices(&self) -> impl Iterator<Item = (&str, DeviceEntry<'_>)> {
        self.0.iter().filter_map(|(field, value)| {
            let id = field.strip_prefix("d:")?;
            Some((id, DeviceEntry::parse(id, value)?))
        })
    }
}

impl FromRedisValue for StoredState {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        HashMap::from_redis_value(value).map(Self)
    }
}

impl<'a> DeviceEntry<'a> {
    fn parse(id: &'a str, value: &'a str) -> Option<Self> {
        let (node, rest) = value.split_once('#')?;
        let (boot_id, rest) = rest.split_once('|')?;
        let (deadline, rest) = rest.split_once('|')?;
        let (connected_at, device) = rest.split_once('|').unwrap_or((rest, id));
        Some(Self {
            node,
            boot_id,
            deadline: Timestamp(deadline.parse().ok()?),
            connected_at,
            device,
        })
    }

    /// Name of the entry as a member of the set of sockets.
    pub(super) fn socket_name(&self, id: &str, user: &UserId) -> String {
        match self.boot_id == NO_SOCKET {
            true => format!("{id}~{user}"),
            false => id.to_owned(),
        }
    }

    pub(super) fn to_live_device(&self, client_info: Option<String>) -> Option<LiveDevice> {
        Some(LiveDevice {
            device_id: DeviceId::new(self.device).ok()?,
            server_id: NodeId::new(self.node).ok()?,
            connected_at: self.connected_at.to_owned(),
            device: client_info,
            expires_at: self.deadline.to_iso8601(),
        })
    }
}
