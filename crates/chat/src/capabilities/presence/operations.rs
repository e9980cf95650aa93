//! Operations of presence.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::{Device, LiveDevice, PresenceStatus, UserStatus};
use super::watch::PresenceWatcher;
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::api::error_code::ErrorCode;
use crate::api::operation::{Operation, OperationInfo};
use crate::chat::Chat;
use crate::clock::duration_millis;
use crate::ids::{DeviceId, UserId};

/// Returns the status of a user. Every caller with a token may call it.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetPresence {
    /// Id of the user.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

impl Operation for GetPresence {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.get",
        summary: "Returns the status of a user",
        codes: &[ErrorCode::InvalidId],
    };
    type Reply = UserStatus;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<UserStatus> {
        chat.presence().status(&UserId::new(&self.user_id)?).await
    }

    fn run_without_store(self) -> Result<UserStatus> {
        Ok(UserStatus::unknown(UserId::new(&self.user_id)?))
    }
}

/// Sets the status of a user. `online` also registers the device; `offline` makes a connected user invisible, and lasts
/// until another status is set, or until the user connects while no device is live. On disk when it is acknowledged.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetPresence {
    /// Id of the user; defaults to the caller. A service must name a user.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// New status.
    pub status: PresenceStatus,
    /// Device that `online` registers; default `api`.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

impl Operation for SetPresence {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.set",
        summary: "Sets the status of a user; `online` registers a device",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::Forbidden,
            ErrorCode::TooMany,
        ],
    };
    type Reply = UserStatus;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UserStatus> {
        let user = caller.authorize_acting_for(&self.user_id)?;
        let device = requested_device(&user, self.device_id.as_deref())?;
        match self.status {
            PresenceStatus::Online => chat.presence().connect_visible(device).await,
            status => chat.presence().set_status(&user, status).await,
        }
    }
}

/// Keeps a device present, and registers it if it is unknown, unless `presence.beat_registers` is off or the user is
/// explicitly offline. Written within one second.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// Owner of the device; defaults to the caller. A service must name a user.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// Device that sends the heartbeat; default `api`.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

/// When the next heartbeat is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatReply {
    /// Milliseconds until the next heartbeat is expected.
    pub next_in_ms: u64,
}

impl Operation for Heartbeat {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.heartbeat",
        summary: "Keeps a device present and registers it if it is unknown",
        codes: &[
            ErrorCode::InvalidId,
            ErrorCode::UserRequired,
            ErrorCode::Forbidden,
        ],
    };
    type Reply = HeartbeatReply;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<HeartbeatReply> {
        let user = caller.authorize_acting_for(&self.user_id)?;
        chat.presence()
            .heartbeat(&requested_device(&user, self.device_id.as_deref())?)?;
        let next_in_ms = duration_millis(chat.settings().heartbeat);
        Ok(HeartbeatReply { next_in_ms })
    }
}

/// Lists the live devices of a user, ordered by id. For the user, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListDevices {
    /// Owner of the devices.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

/// Live devices of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DeviceList {
    /// The live devices, ordered by id.
    pub devices: Vec<LiveDevice>,
}

impl Operation for ListDevices {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.devices",
        summary: "Lists the live devices of a user",
        codes: &[ErrorCode::InvalidId, ErrorCode::Forbidden],
    };
    type Reply = DeviceList;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<DeviceList> {
        let user = caller.authorize_self_or_admin(&self.user_id)?;
        let devices = chat.presence().devices(&user).await?;
        Ok(DeviceList { devices })
    }
}

/// Removes a device at once and closes its sockets. Removing an unknown device succeeds.
/// For the user, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoveDevice {
    /// Owner of the device.
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// Id of the device.
    #[schema(value_type = DeviceId)]
    pub device_id: String,
}

impl Operation for RemoveDevice {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.remove_device",
        summary: "Removes a device of a user at once",
        codes: &[ErrorCode::InvalidId, ErrorCode::Forbidden],
    };
    type Reply = UserStatus;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UserStatus> {
        let user = caller.authorize_self_or_admin(&self.user_id)?;
        let device = DeviceId::new(&self.device_id)?;
        chat.presence().remove_device(&user, &device).await
    }
}

/// Returns the statuses of up to 1,000 users.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryPresence {
    /// Ids of the users.
    #[schema(value_type = Vec<UserId>, max_items = 1000)]
    pub user_ids: Vec<String>,
}

/// Statuses of several users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct UserStatusList {
    /// The statuses, in the order of the request.
    pub users: Vec<UserStatus>,
}

impl Operation for QueryPresence {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.query",
        summary: "Returns the statuses of up to 1,000 users",
        codes: &[ErrorCode::InvalidId, ErrorCode::TooMany],
    };
    type Reply = UserStatusList;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<UserStatusList> {
        let users = chat
            .presence()
            .statuses(&parse_user_ids(&self.user_ids)?)
            .await?;
        Ok(UserStatusList { users })
    }

    fn run_without_store(self) -> Result<UserStatusList> {
        let users = parse_user_ids(&self.user_ids)?.into_iter();
        let users = users.map(UserStatus::unknown).collect();
        Ok(UserStatusList { users })
    }
}

/// Counts the connected users, including invisible ones.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub struct CountPresence {}

/// Number of connected users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct PresenceCount {
    /// Number of connected users, including invisible ones. A user who just left may be counted for one more second.
    pub count: u64,
}

impl Operation for CountPresence {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.count",
        summary: "Counts the connected users, including invisible ones",
        codes: &[],
    };
    type Reply = PresenceCount;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<PresenceCount> {
        let count = chat.presence().count().await?;
        Ok(PresenceCount { count })
    }
}

/// Returns the statuses of users and then every change.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchPresence {
    /// Ids of the users.
    #[schema(value_type = Vec<UserId>, max_items = 1000)]
    pub user_ids: Vec<String>,
}

/// Current statuses of the watched users, and a watcher for the changes.
pub struct PresenceWatch {
    /// The statuses, in the order of the request.
    pub users: Vec<UserStatus>,
    /// Receives the changes: the latest of each user, at most ten times per second.
    pub changes: PresenceWatcher,
}

impl Operation for WatchPresence {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.watch",
        summary: "Returns the statuses of users and streams changes",
        codes: &[ErrorCode::InvalidId, ErrorCode::TooMany],
    };
    type Reply = PresenceWatch;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<PresenceWatch> {
        let mut changes = chat.presence().new_watcher();
        let users = changes.watch(&parse_user_ids(&self.user_ids)?).await?;
        Ok(PresenceWatch { users, changes })
    }
}

fn requested_device(user: &UserId, id: Option<&str>) -> Result<Device> {
    let id = id.map_or_else(|| Ok(DeviceId::default_for_requests()), DeviceId::new)?;
    Ok(Device::without_socket(user.clone(), id))
}

fn parse_user_ids(ids: &[String]) -> Result<Vec<UserId>> {
    if ids.len() > super::MAX_USERS_PER_QUERY {
        return Err(Error::TooMany {
            items: "users",
            given: ids.len(),
            max: super::MAX_USERS_PER_QUERY,
        });
    }
    let checked = ids.iter().map(UserId::new);
    Ok(checked.collect::<std::result::Result<_, _>>()?)
}
