//! Presence: who is here now, counted per person and not per open tab.
//!
//! Always true:
//! 1. A user is online while one of their devices has a deadline after now. Each device has its own.
//! 2. There is one state per user, in one hash. The layouts show it in the documents' keys and decide nothing.
//! 3. The script that changes how a user is seen announces it, with a higher version: once, whoever dies when.
//! 4. The index of deadlines is a hint of when to look. An entry may be early or superfluous; for a connected user there
//!    is always one that is due no later than one lifetime after the last device.
//! 5. Nobody is called gone by a node that has not itself been well connected to the store for lease and grace time.
//! 6. A key's time to live collects rubbish and serves other readers; it decides nothing here.

pub mod keys;

mod beats;
mod closing;
mod going;
mod layouts;
mod local;
mod native;
mod operations;
mod ops;
mod reads;
mod reap;
mod register;
mod revive;
mod step;
mod sweep;
mod tick;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use parlor_store::{LuaScript, script};
use tokio::sync::Notify;

use self::local::{Departure, LocalDevices};
use self::register::RegistrationReason;
use self::step::{PresenceScriptArgs, PresenceSnapshot};
use self::watch::WatcherRegistry;
use crate::context::{ChatContext, Timestamp};
use crate::error::{Error, Result};
use crate::ids::{DeadlineShard, DeviceId, UserId};
use crate::nodes::LocalNode;

pub use self::operations::{
    Count, CountPresence, Devices, GetPresence, Heartbeat, HeartbeatReply, ListDevices,
    PresenceWatch, QueryPresence, RemoveDevice, SetPresence, UserStatusList, WatchPresence,
};
pub use self::ops::{Device, LiveDevice, PresenceStatus, UserStatus};
pub use self::reads::MAX_USERS_PER_QUERY;
pub use self::register::{MAX_DEVICES_PER_USER, MOST_INFO};
pub use self::watch::{MAX_WATCHED_USERS, PresenceWatcher};

static LOWER_DEADLINE: LuaScript = script!("sooner.lua");

/// Presence as one node sees and serves it.
pub struct Presence {
    ctx: ChatContext,
    local_node: Arc<LocalNode>,
    devices: Mutex<LocalDevices>,
    /// Held while beats are written: which of them are on the way is known of one flush only.
    flush_lock: tokio::sync::Mutex<()>,
    watchers: Arc<WatcherRegistry>,
    /// Tells that a socket has to be closed.
    socket_close_requested: Notify,
    /// Whether the devices of an earlier start of this node are ended.
    previous_run_reaped: AtomicBool,
    /// When the node started.
    started_at: Mutex<Option<Timestamp>>,
}

impl Presence {
    /// The presence of a node that has not started.
    pub fn new(ctx: ChatContext, local_node: Arc<LocalNode>) -> Self {
        Self {
            watchers: WatcherRegistry::new(ctx.clone()),
            socket_close_requested: Notify::new(),
            ctx,
            local_node,
            devices: Mutex::default(),
            flush_lock: tokio::sync::Mutex::default(),
            previous_run_reaped: AtomicBool::new(false),
            started_at: Mutex::default(),
        }
    }

    /// A device appears. Announces `online` if it is the first that can be seen. While the store is away a socket is
    /// remembered and registered when the store is back. If nobody waits for the answer, the socket is lost.
    pub async fn connect(&self, device: impl Into<Arc<Device>>) -> Result<UserStatus> {
        self.register_connection(device.into(), RegistrationReason::Connect)
            .await
    }

    /// A device appears and its user wants to be seen: [`connect`](Self::connect), and an explicit status ends, in one
    /// step. What cannot be written at once is remembered as a connect only.
    pub async fn connect_visible(&self, device: Device) -> Result<UserStatus> {
        self.register_connection(device.into(), RegistrationReason::ConnectVisible)
            .await
    }

    /// A device is still there. Written with the next [`flush_beats`](Self::flush_beats). The beat of a socket that this
    /// node does not hold is nothing; that of a device without a socket registers it. An error says that the store is
    /// away for so long that no more of the latter can be remembered.
    pub fn beat(&self, device: &Device) -> Result<()> {
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

    /// Whether a device is here by this socket, as far as this node knows; another socket of it may have come since.
    pub fn holds_socket(&self, device: &Device) -> bool {
        let (local, socket) = (self.devices.lock(), device.socket.as_ref());
        socket.is_some() && local.find(&device.user, &device.id, socket).is_some()
    }

    /// A user says how they want to be seen: `Offline` hides them, `Online` ends what they said before. Holds while a
    /// device lives.
    pub async fn set(&self, user: &UserId, status: PresenceStatus) -> Result<UserStatus> {
        let steps = PresenceScriptArgs::new(&self.ctx);
        let call = steps.call(|it| &it.set_status, user).arg(status.name());
        let settled: PresenceSnapshot = call.run(&self.ctx.store().idempotent()).await?;
        Ok(settled.into_user_status(user))
    }

    /// A device says goodbye: it is gone at once. Does nothing if another socket has taken the device over. While the
    /// store is away the goodbye of a socket is remembered, and the error says that it is not yet done.
    pub async fn leave(&self, device: &Device) -> Result<()> {
        if device.socket.is_some() {
            return self.depart(device, Departure::Disconnected).await;
        }
        self.devices
            .lock()
            .discard_heartbeat(&device.user, &device.id);
        self.remove_from_store(&device.user, &device.id, register::NO_SOCKET)
            .await
            .map(drop)
    }

    /// A socket is lost: the device has the grace time to come back. Else as [`leave`](Self::leave). A device without a
    /// socket cannot be lost.
    pub async fn connection_lost(&self, device: &Device) -> Result<()> {
        if device.socket.is_none() {
            return Ok(());
        }
        self.depart(device, Departure::ConnectionLost).await
    }

    /// Ends a device that this epoch holds; with none it is removed, whoever holds it.
    async fn remove_from_store(
        &self,
        user: &UserId,
        id: &DeviceId,
        epoch: &str,
    ) -> Result<PresenceSnapshot> {
        let mut store = self.ctx.store().idempotent();
        let steps = PresenceScriptArgs::new(&self.ctx);
        let call = steps.call(|it| &it.remove, user).arg(id).arg(epoch);
        let settled: PresenceSnapshot = call.arg("").arg("").run(&store).await?;
        let sooner = self.lower_deadline_cmd(user, settled.latest_deadline);
        sooner.exec_async(&mut store).await?;
        Ok(settled)
    }

    /// The command that tells the index of a shortened deadline; 0 is none, and wants a look at once.
    fn lower_deadline_cmd(&self, user: &UserId, until: u64) -> redis::Cmd {
        let shard = self.ctx.keys().presence_deadlines(DeadlineShard::of(user));
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
