//! What callers can ask of presence.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ops::{Device, LiveDevice, Status, UserStatus};
use super::watch::Watcher;
use crate::access::Caller;
use crate::chat::Chat;
use crate::code::Code;
use crate::context::{Moment, millis};
use crate::error::{Error, Result};
use crate::ids::{DeviceId, NodeId, UserId};
use crate::operation::{Info, Operation};

/// The device of those who come by requests and give it no name.
const DEFAULT_DEVICE: &str = "api";

/// How a user is seen. Anybody with a token may ask.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetPresence {
    /// Who.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

impl Operation for GetPresence {
    const INFO: Info = Info {
        name: "presence.get",
        summary: "How a user is seen",
        codes: &[Code::InvalidId],
    };
    type Reply = UserStatus;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<UserStatus> {
        chat.presence().status(&UserId::new(&self.user_id)?).await
    }

    fn without_store(self) -> Result<UserStatus> {
        Ok(UserStatus::degraded(UserId::new(&self.user_id)?))
    }
}

/// How a user wants to be seen. `online` registers the device; `offline` hides a connected user.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetPresence {
    /// Who; the caller unless a service acts for somebody.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// How.
    pub status: Status,
    /// The device that `online` registers; `api` if none is named.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

impl Operation for SetPresence {
    const INFO: Info = Info {
        name: "presence.set",
        summary: "Says how a user wants to be seen; online registers a device",
        codes: &[
            Code::InvalidId,
            Code::UserRequired,
            Code::Forbidden,
            Code::TooMany,
        ],
    };
    type Reply = UserStatus;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UserStatus> {
        let user = caller.acts_for(&self.user_id)?;
        let device = device(&user, self.device_id.as_deref())?;
        match self.status {
            Status::Online => chat.presence().appear(device).await,
            status => chat.presence().set(&user, status).await,
        }
    }
}

/// A device is still there; it is registered if it is not. Written within a second.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// Whose device; the caller's unless a service acts for somebody.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// Which; `api` if none is named.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

/// When to beat again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextHeartbeat {
    /// Milliseconds until the next beat is expected.
    pub next_in_ms: u64,
}

impl Operation for Heartbeat {
    const INFO: Info = Info {
        name: "presence.heartbeat",
        summary: "Keeps a device present, and registers it if it is not",
        codes: &[Code::InvalidId, Code::UserRequired, Code::Forbidden],
    };
    type Reply = NextHeartbeat;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<NextHeartbeat> {
        let user = caller.acts_for(&self.user_id)?;
        chat.presence()
            .beat(&device(&user, self.device_id.as_deref())?)?;
        let next_in_ms = millis(chat.settings().heartbeat);
        Ok(NextHeartbeat { next_in_ms })
    }
}

/// The live devices of a user: for the user, admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListDevices {
    /// Whose.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

/// The live devices of a user, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Devices {
    /// The devices.
    pub devices: Vec<DeviceView>,
}

/// A live device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceView {
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

impl From<LiveDevice> for DeviceView {
    fn from(live: LiveDevice) -> Self {
        Self {
            device_id: live.device_id,
            server_id: live.server_id,
            connected_at: live.connected_at,
            expires_at: Moment(live.deadline).iso(),
            device: live.device,
        }
    }
}

impl Operation for ListDevices {
    const INFO: Info = Info {
        name: "presence.devices",
        summary: "The live devices of a user",
        codes: &[Code::InvalidId, Code::Forbidden],
    };
    type Reply = Devices;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Devices> {
        let user = caller.administers(&self.user_id)?;
        let live = chat.presence().devices(&user).await?;
        let devices = live.into_iter().map(DeviceView::from).collect();
        Ok(Devices { devices })
    }
}

/// Ends a device of a user at once: for the user, admins and services. One that is not there is gone already.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoveDevice {
    /// Whose.
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// Which.
    #[schema(value_type = DeviceId)]
    pub device_id: String,
}

impl Operation for RemoveDevice {
    const INFO: Info = Info {
        name: "presence.remove_device",
        summary: "Ends a device of a user at once",
        codes: &[Code::InvalidId, Code::Forbidden],
    };
    type Reply = UserStatus;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<UserStatus> {
        let user = caller.administers(&self.user_id)?;
        let device = DeviceId::new(&self.device_id)?;
        chat.presence().remove(&user, &device).await
    }
}

/// How up to 1,000 users are seen.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryPresence {
    /// Who.
    #[schema(value_type = Vec<UserId>, max_items = 1000)]
    pub user_ids: Vec<String>,
}

/// How users are seen, in the order asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Statuses {
    /// The users.
    pub users: Vec<UserStatus>,
}

impl Operation for QueryPresence {
    const INFO: Info = Info {
        name: "presence.query",
        summary: "How up to 1,000 users are seen, in the order asked",
        codes: &[Code::InvalidId, Code::TooMany],
    };
    type Reply = Statuses;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<Statuses> {
        let users = chat.presence().statuses(&users(&self.user_ids)?).await?;
        Ok(Statuses { users })
    }

    fn without_store(self) -> Result<Statuses> {
        let users = users(&self.user_ids)?.into_iter();
        let users = users.map(UserStatus::degraded).collect();
        Ok(Statuses { users })
    }
}

/// How many users are connected, the invisible ones included.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
pub struct CountPresence {}

/// How many users are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Count {
    /// How many; one who just left or lapsed may count for another second.
    pub count: u64,
}

impl Operation for CountPresence {
    const INFO: Info = Info {
        name: "presence.count",
        summary: "How many users are connected, the invisible ones included",
        codes: &[],
    };
    type Reply = Count;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<Count> {
        let count = chat.presence().count().await?;
        Ok(Count { count })
    }
}

/// Tells how chosen users are seen, now and with every change.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchPresence {
    /// Who.
    #[schema(value_type = Vec<UserId>, max_items = 1000)]
    pub user_ids: Vec<String>,
}

/// How the watched users are seen now, and the changes from here on.
pub struct Watching {
    /// The users, in the order asked.
    pub users: Vec<UserStatus>,
    /// The changes: the latest of each user, at most ten times a second.
    pub changes: Watcher,
}

impl Operation for WatchPresence {
    const INFO: Info = Info {
        name: "presence.watch",
        summary: "Tells how chosen users are seen, now and with every change",
        codes: &[Code::InvalidId, Code::TooMany],
    };
    type Reply = Watching;

    async fn run(self, chat: &Chat, _: &Caller) -> Result<Watching> {
        let mut changes = chat.presence().watcher();
        let users = changes.watch(&users(&self.user_ids)?).await?;
        Ok(Watching { users, changes })
    }
}

fn device(user: &UserId, id: Option<&str>) -> Result<Device> {
    let id = DeviceId::new(id.unwrap_or(DEFAULT_DEVICE))?;
    Ok(Device::api(user.clone(), id))
}

fn users(ids: &[String]) -> Result<Vec<UserId>> {
    if ids.len() > super::MOST_READ {
        return Err(Error::TooMany {
            what: "users",
            given: ids.len(),
            most: super::MOST_READ,
        });
    }
    let checked = ids.iter().map(UserId::new);
    Ok(checked.collect::<std::result::Result<_, _>>()?)
}
