//! Presence: the devices of each user, and one visible status derived from them.
//!
//! A device, one for each connection (two tabs with the same device id are two):
//!
//! ```text
//!                            heartbeat (deadline = now + ttl.presence)
//!                            ┌─────┐
//!               connect      ▼     │     connection lost
//! (no device) ───────────▶ CONNECTED ───────────────────▶ GRACE PERIOD
//!      ▲                    │     ▲                        │      │
//!      │                    │     └─────── connect ────────┘      │
//!      │  disconnect, removal, deadline passed, node died         │ deadline passed, removal
//!      └────────────────────┴─────────────────────────────────────┘
//! ```
//!
//! A user, whose visible status follows from the devices and the explicit status:
//!
//! ```text
//!           first device (events:user.online)             set away, busy
//! OFFLINE ──────────────────────────────────▶ ONLINE ◀─────────────────────▶ AWAY, BUSY
//!    ▲                                          │ set online                      │
//!    │   last device (events:user.offline)      │                                 │
//!    ├──────────────────────────────────────────┴─────────────────────────────────┤
//!    │                                              set offline (events:user.offline)
//!    │   connect without a live device (events:user.online)                       ▼
//!    └──────────────────────────────────────────────────────────────────────  INVISIBLE
//!        INVISIBLE stays after the last device is gone, and may be set without a device. Another status ends it.
//! ```
//!
//! Files: `register.rs` connect, `heartbeat.rs` heartbeats, `disconnect.rs` clean disconnect and lost
//! connection, `remove_device.rs` removal by request, `expire.rs` passed deadlines, `reap.rs` dead nodes, `restart.rs`
//! restart of the embedded store, `query.rs` reads, `watch/` subscriptions. `scripts/user_state.lua` decides the status.
//!
//! Invariants:
//! 1. A user is present while at least one device has a deadline after now. Each device has its own deadline.
//! 2. The state of a user is one hash. The documented keys are derived from it. With `presence.external`, entries of
//!    other services in these keys count as well.
//! 3. The script that changes the visible status also publishes the event, with a higher version. A node that crashes
//!    can therefore neither lose nor repeat an event.
//! 4. The deadline index only says when to check a user; the state decides. An entry may be too early or superfluous. A
//!    user with a device always has an entry, due at most `ttl.presence` after the last registration or check.
//! 5. A node publishes a user as offline because deadlines have passed, and declares other nodes dead, only after it
//!    has held its own lease without a break for lease + grace period. Connections that it has lost itself are the
//!    exception: it removes them after the grace period.
//! 6. Redis TTLs remove leftovers. No decision about own devices depends on a TTL.
//! 7. Other services write the documented keys, too. Parlor changes and removes only its own fields, members and values,
//!    see `layouts.rs`.
//! 8. The version of a user never falls, and a status that was set is acknowledged after it is on disk.

pub mod keys;

mod cleanup;
mod disconnect;
mod expire;
mod external;
mod heartbeat;
mod layouts;
mod lifecycle;
mod local_devices;
mod model;
mod operation_group;
mod operations;
mod query;
mod reap;
mod register;
mod remove_device;
mod restart;
mod script_call;
mod scripts;
mod stored_state;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use parlor_store::{LuaScript, script};
use tokio::sync::Notify;

use self::local_devices::{Departure, LocalDevices, device_key};
use self::query::StatusReader;
use self::register::RegistrationReason;
use self::script_call::{PresenceScriptArgs, PresenceSnapshot};
use self::watch::WatcherRegistry;
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::context::ChatContext;
use crate::ids::{DeadlineShard, DeviceId, UserId};
use crate::nodes::LocalNode;

pub use self::cleanup::{PresenceCleanup, clean_up_presence};
pub use self::model::{Device, LiveDevice, PresenceStatus, UserStatus};
pub use self::operation_group::OPERATIONS;
pub use self::operations::{
    CountPresence, DeviceList, GetPresence, Heartbeat, HeartbeatReply, ListDevices, PresenceCount,
    PresenceWatch, QueryPresence, RemoveDevice, SetPresence, UserStatusList, WatchPresence,
};
pub use self::query::MAX_USERS_PER_QUERY;
pub use self::register::MAX_DEVICES_PER_USER;
pub use self::watch::{MAX_WATCHED_USERS, PresenceWatcher};

static LOWER_DEADLINE: LuaScript = script!("scripts/lower_deadline.lua");

/// Presence of all users, as one node tracks and serves it.
pub struct Presence {
    ctx: ChatContext,
    local_node: Arc<LocalNode>,
    devices: Mutex<LocalDevices>,
    /// Allows one heartbeat flush at a time: `LocalDevices` tracks the in-flight heartbeats of one flush only.
    flush_lock: tokio::sync::Mutex<()>,
    reader: Arc<StatusReader>,
    watchers: Arc<WatcherRegistry>,
    /// Wakes [`next_socket_to_close`](Self::next_socket_to_close).
    socket_close_requested: Notify,
    previous_run: Mutex<PreviousRun>,
    /// A key of a foreign type was reported. It is reported once per process.
    wrong_type_reported: AtomicBool,
}

/// Whether the devices of this node's previous run are removed.
#[derive(Debug, Clone, Copy)]
enum PreviousRun {
    /// This run has not [started](Presence::start).
    Unknown,
    /// The devices are removed at this time; until then their clients can reconnect.
    ReapAfter(Timestamp),
    /// The devices are removed.
    Reaped,
}

impl Presence {
    /// Creates the presence of a node that has not started.
    pub fn new(ctx: ChatContext, local_node: Arc<LocalNode>) -> Self {
        let reader = Arc::new(StatusReader::new(ctx.clone()));
        Self {
            watchers: WatcherRegistry::new(ctx.clone(), Arc::clone(&reader)),
            reader,
            socket_close_requested: Notify::new(),
            ctx,
            local_node,
            devices: Mutex::default(),
            flush_lock: tokio::sync::Mutex::default(),
            previous_run: Mutex::new(PreviousRun::Unknown),
            wrong_type_reported: AtomicBool::new(false),
        }
    }

    /// Registers a device. Publishes `user.online` if the visible status leaves offline. If the store is unavailable, a
    /// socket is queued and registered when the store is back. If the returned future is dropped, the device is treated
    /// as a lost connection.
    pub async fn connect(&self, device: impl Into<Arc<Device>>) -> Result<UserStatus> {
        self.register_connection(device.into(), RegistrationReason::Connect)
            .await
    }

    /// Registers a device as [`connect`](Self::connect) does, and clears the explicit status in the same script call.
    /// If the store is unavailable, the queued registration is a plain connect.
    /// Returns after the status is on disk.
    pub async fn connect_visible(&self, device: Device) -> Result<UserStatus> {
        let reason = RegistrationReason::ConnectVisible;
        let status = self.register_connection(device.into(), reason).await?;
        self.ctx.store().wait_until_durable().await?;
        Ok(status)
    }

    /// Buffers a heartbeat; [`flush_heartbeats`](Self::flush_heartbeats) writes it. A heartbeat of a socket that this
    /// node does not hold is ignored. A heartbeat of an unknown device without a socket registers the device. Fails if
    /// the store has been unavailable for so long that the buffer for devices without a socket is full.
    pub fn heartbeat(&self, device: &Device) -> Result<()> {
        if self
            .devices
            .lock()
            .try_buffer_heartbeat(device, self.ctx.now())
        {
            return Ok(());
        }
        let reason = (redis::ErrorKind::Io, "the heartbeat buffer is full");
        Err(Error::StoreUnavailable(reason.into()))
    }

    /// Sets the explicit status of a user: `Offline` makes the user invisible, `Online` clears the explicit status. An
    /// explicit status ends with the last device, except `Offline`, which may also be set without a live device and ends
    /// when another status is set, or when the user connects while no device is live. Returns after the status is on
    /// disk.
    pub async fn set_status(&self, user: &UserId, status: PresenceStatus) -> Result<UserStatus> {
        let args = PresenceScriptArgs::new(&self.ctx);
        let call = args.call(|it| &it.set_status, user).arg(status.name());
        let snapshot: PresenceSnapshot = call.run(&self.ctx.store().idempotent()).await?;
        if snapshot.has_wrong_type {
            self.warn_about_wrong_type(user);
        }
        self.ctx.store().wait_until_durable().await?;
        Ok(self.reader.with_floor(snapshot.into_user_status(user)))
    }

    /// Removes a device at once (clean disconnect). Does nothing if another socket holds the device now. If the store
    /// is unavailable, the departure of a socket is queued and an error is returned.
    pub async fn disconnect(&self, device: &Device) -> Result<()> {
        if device.socket.is_some() {
            return self.depart(device, Departure::Disconnected).await;
        }
        self.devices.lock().discard_heartbeat(&device_key(device));
        self.remove_from_store(&device.user, &device.id, register::NO_SOCKET)
            .await
            .map(drop)
    }

    /// Starts the grace period of a device whose connection is lost; otherwise like [`disconnect`](Self::disconnect).
    /// Does nothing for a device without a socket.
    pub async fn connection_lost(&self, device: &Device) -> Result<()> {
        if device.socket.is_none() {
            return Ok(());
        }
        self.depart(device, Departure::ConnectionLost).await
    }

    /// Removes a device from the store if it has this boot id. An empty one matches every connection of the device and
    /// leaves a tombstone.
    async fn remove_from_store(
        &self,
        user: &UserId,
        id: &DeviceId,
        epoch: &str,
    ) -> Result<PresenceSnapshot> {
        let mut store = self.ctx.store().idempotent();
        let args = PresenceScriptArgs::new(&self.ctx);
        let call = args.call(|it| &it.remove, user).arg(id).arg(epoch);
        let snapshot: PresenceSnapshot = call.arg("").arg("").run(&store).await?;
        let mut cleanup = redis::pipe();
        cleanup.add_command(self.lower_deadline_cmd(user, snapshot.latest_deadline));
        let device = Device::without_socket(user.clone(), id.clone());
        if let Some(socket_user) = self.ctx.keys().owner_of_device(&device) {
            cleanup.cmd("DEL").arg(socket_user);
        }
        cleanup.exec_async(&mut store).await?;
        Ok(snapshot)
    }

    /// Logs once that a key has a foreign type.
    fn warn_about_wrong_type(&self, user: &UserId) {
        if !self.wrong_type_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %user,
                "a presence key has a foreign type and stays as it is; other services do not see this user online, `parlor doctor` names the keys"
            );
        }
    }

    /// Command that lowers a user's entry in the deadline index. A deadline of 0 means that the user has no device: the
    /// entry becomes due at once, and the next sweep removes it.
    fn lower_deadline_cmd(&self, user: &UserId, until: u64) -> redis::Cmd {
        let shard = self
            .ctx
            .keys()
            .presence_deadlines(DeadlineShard::for_user(user));
        if until > 0 {
            return LOWER_DEADLINE.keys(shard).arg(user).arg(until).cmd();
        }
        let mut now = redis::cmd("ZADD");
        now.arg(shard).arg(self.ctx.now().as_millis()).arg(user);
        now
    }
}

impl std::fmt::Debug for Presence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Presence({})", self.local_node.id())
    }
}
