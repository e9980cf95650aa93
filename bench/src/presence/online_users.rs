//! Many users who are online on one node.

use std::time::Duration;

use futures_util::{TryStreamExt, stream};
use parlor_chat::ids::{DeadlineShard, SocketId, UserId};
use parlor_chat::keys::{KeySettings, Keyspace, TtlName};
use parlor_chat::presence::{Device, Presence};
use parlor_store::ManualClock;

use crate::store_fixture::{Engine, GRACE, StoreFixture};

/// Seconds between two heartbeats of a user.
pub const HEARTBEAT_INTERVAL_SECS: usize = 20;
/// Long enough that Redis, which uses its own clock, does not expire the lease while many users connect.
const LEASE: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

/// Node with its users. Its clock is advanced manually, so that no user expires while a million connect.
pub struct OnlineUsers {
    pub fixture: StoreFixture,
    pub presence: Presence,
    keys: Keyspace,
    devices: Vec<Device>,
}

impl OnlineUsers {
    /// Creates a node that is allowed to reap others, and users that are not connected yet.
    pub async fn new(engine: Engine, users: usize) -> anyhow::Result<Self> {
        let fixture = StoreFixture::open(engine, Some(ManualClock::default())).await?;
        let mut settings = KeySettings::default();
        settings.ttls.set(TtlName::NodeLease, LEASE);
        let (presence, keys) = fixture.node("n0", settings).await?;
        for step in [LEASE, GRACE] {
            fixture.store.clock().advance(step - SECOND);
            presence.renew_lease().await?;
            fixture.store.clock().advance(SECOND);
        }
        presence.renew_lease().await?;
        let mut devices = (0..users).map(device).collect::<anyhow::Result<Vec<_>>>()?;
        // In the order of keys in the embedded store's file; in any other order, a million connects write tens of
        // gigabytes.
        devices.sort_unstable_by(|a, b| a.user.cmp(&b.user));
        Ok(Self {
            fixture,
            presence,
            keys,
            devices,
        })
    }

    pub async fn connect(&self) -> anyhow::Result<()> {
        connect_all(&self.presence, &self.devices, self.fixture.engine).await
    }

    /// Simulates one second of the node, in which one of 20 users sends a heartbeat. Returns the number of heartbeats.
    pub async fn simulate_second(&self, number: usize) -> anyhow::Result<u64> {
        let mut beats = 0;
        for device in self
            .devices
            .iter()
            .skip(number % HEARTBEAT_INTERVAL_SECS)
            .step_by(HEARTBEAT_INTERVAL_SECS)
        {
            self.presence.heartbeat(device)?;
            beats += 1;
        }
        self.fixture.store.clock().advance(SECOND);
        self.presence.renew_lease().await?;
        self.presence.flush_heartbeats().await?;
        Ok(beats)
    }

    /// Picks users that are far apart, different ones for each number.
    pub fn sample(&self, count: usize, number: usize) -> Vec<UserId> {
        let at = |n: usize| (n * 7_919 + number * 104_729) % self.devices.len();
        (0..count)
            .map(|n| self.devices[at(n)].user.clone())
            .collect()
    }

    /// Makes the sweep visit users whose devices are alive, as it does once per TTL of a device.
    pub async fn make_deadlines_due(&self, users: &[UserId]) -> anyhow::Result<()> {
        let mut pipe = redis::pipe();
        for user in users {
            let index = self.keys.presence_deadlines(DeadlineShard::for_user(user));
            let now = self.fixture.store.clock().now_ms();
            pipe.cmd("ZADD").arg(index).arg(now).arg(user).ignore();
        }
        Ok(pipe.exec_async(&mut self.fixture.store.clone()).await?)
    }
}

/// Device of a user with a socket. The names are not sorted, as in production.
pub fn device(number: usize) -> anyhow::Result<Device> {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let user = UserId::new(format!("{mixed:016x}"))?;
    let socket = SocketId::new(format!("{mixed:016x}AAAB"))?;
    Ok(Device::with_socket(user, socket))
}

/// Connects the devices, with the concurrency that fits the store.
pub async fn connect_all(
    presence: &Presence,
    devices: &[Device],
    engine: Engine,
) -> anyhow::Result<()> {
    stream::iter(devices.iter().cloned().map(Ok))
        .try_for_each_concurrent(engine.tasks(), async |device| {
            presence.connect(device).await?;
            Ok(())
        })
        .await
}
