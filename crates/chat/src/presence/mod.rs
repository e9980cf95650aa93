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
use parlor_store::{Script, script};
use tokio::sync::Notify;

use self::local::{Going, Local};
use self::register::Coming;
use self::step::{Settled, Steps};
use self::watch::Hub;
use crate::context::{Context, Moment};
use crate::error::{Error, Result};
use crate::ids::{DeadlineShard, DeviceId, UserId};
use crate::nodes::Nodes;

pub use self::operations::{
    Count, CountPresence, DeviceView, Devices, GetPresence, Heartbeat, ListDevices, NextHeartbeat,
    QueryPresence, RemoveDevice, SetPresence, Statuses, WatchPresence, Watching,
};
pub use self::ops::{Device, LiveDevice, Status, UserStatus};
pub use self::reads::MOST_READ;
pub use self::register::{MOST_DEVICES, MOST_INFO};
pub use self::watch::{MOST_WATCHED, Watcher};

static SOONER: Script = script!("sooner.lua");

/// Presence as one node sees and serves it.
pub struct Presence {
    ctx: Context,
    nodes: Arc<Nodes>,
    local: Mutex<Local>,
    /// Held while beats are written: which of them are on the way is known of one flush only.
    flushing: tokio::sync::Mutex<()>,
    hub: Arc<Hub>,
    /// Tells that a socket has to be closed.
    closing: Notify,
    /// Whether the devices of an earlier start of this node are ended.
    past_ended: AtomicBool,
    /// When the node started.
    started: Mutex<Option<Moment>>,
}

impl Presence {
    /// The presence of a node that has not started.
    pub fn new(ctx: Context, nodes: Arc<Nodes>) -> Self {
        Self {
            hub: Hub::new(ctx.clone()),
            closing: Notify::new(),
            ctx,
            nodes,
            local: Mutex::default(),
            flushing: tokio::sync::Mutex::default(),
            past_ended: AtomicBool::new(false),
            started: Mutex::default(),
        }
    }

    /// A device appears. Announces `online` if it is the first that can be seen. While the store is away a socket is
    /// remembered and registered when the store is back. If nobody waits for the answer, the socket is lost.
    pub async fn connect(&self, device: impl Into<Arc<Device>>) -> Result<UserStatus> {
        self.come(device.into(), Coming::Connect).await
    }

    /// A device appears and its user wants to be seen: [`connect`](Self::connect), and an explicit status ends, in one
    /// step. What cannot be written at once is remembered as a connect only.
    pub async fn appear(&self, device: Device) -> Result<UserStatus> {
        self.come(device.into(), Coming::Appear).await
    }

    /// A device is still there. Written with the next [`flush_beats`](Self::flush_beats). The beat of a socket that this
    /// node does not hold is nothing; that of a device without a socket registers it. An error says that the store is
    /// away for so long that no more of the latter can be remembered.
    pub fn beat(&self, device: &Device) -> Result<()> {
        if self.local.lock().beat(device, self.ctx.now()) {
            return Ok(());
        }
        let reason = (redis::ErrorKind::Io, "too many beats wait for the store");
        Err(Error::StoreUnavailable(reason.into()))
    }

    /// Whether a device is here by this socket, as far as this node knows; another socket of it may have come since.
    pub fn holds(&self, device: &Device) -> bool {
        let (local, socket) = (self.local.lock(), device.socket.as_ref());
        socket.is_some() && local.get(&device.user, &device.id, socket).is_some()
    }

    /// A user says how they want to be seen: `Offline` hides them, `Online` ends what they said before. Holds while a
    /// device lives.
    pub async fn set(&self, user: &UserId, status: Status) -> Result<UserStatus> {
        let steps = Steps::now(&self.ctx);
        let call = steps.call(|it| &it.set, user).arg(status.name());
        let settled: Settled = call.run(&self.ctx.store().repeatable()).await?;
        Ok(settled.of(user))
    }

    /// A device says goodbye: it is gone at once. Does nothing if another socket has taken the device over. While the
    /// store is away the goodbye of a socket is remembered, and the error says that it is not yet done.
    pub async fn leave(&self, device: &Device) -> Result<()> {
        if device.socket.is_some() {
            return self.go(device, Going::Left).await;
        }
        self.local.lock().forget_beat(&device.user, &device.id);
        self.end(&device.user, &device.id, register::API)
            .await
            .map(drop)
    }

    /// A socket is lost: the device has the grace time to come back. Else as [`leave`](Self::leave). A device without a
    /// socket cannot be lost.
    pub async fn lose(&self, device: &Device) -> Result<()> {
        if device.socket.is_none() {
            return Ok(());
        }
        self.go(device, Going::Lost).await
    }

    /// Ends a device that this epoch holds; with none it is removed, whoever holds it.
    async fn end(&self, user: &UserId, id: &DeviceId, epoch: &str) -> Result<Settled> {
        let mut store = self.ctx.store().repeatable();
        let steps = Steps::now(&self.ctx);
        let call = steps.call(|it| &it.leave, user).arg(id).arg(epoch);
        let settled: Settled = call.arg("").arg("").run(&store).await?;
        let sooner = self.sooner(user, settled.until);
        sooner.exec_async(&mut store).await?;
        Ok(settled)
    }

    /// The command that tells the index of a shortened deadline; 0 is none, and wants a look at once.
    fn sooner(&self, user: &UserId, until: u64) -> redis::Cmd {
        let shard = self.ctx.keys().deadlines(DeadlineShard::of(user));
        if until > 0 {
            return SOONER.keys(shard).arg(user).arg(until).cmd();
        }
        let mut now = redis::cmd("ZADD");
        now.arg(shard).arg(self.ctx.now().ms()).arg(user);
        now
    }
}

impl std::fmt::Debug for Presence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Presence({})", self.nodes.id())
    }
}
