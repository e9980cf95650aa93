//! Costs of presence with a given number of online users.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::online_users::OnlineUsers;
use crate::measure::resident;
use crate::store_fixture::{Engine, ResourceUsage};

/// Seconds at the heartbeat rate of production: long enough to include the flush of each second.
const PACED_SECONDS: usize = 4;
const IDLE_DURATION: Duration = Duration::from_secs(1);
/// Time in which heartbeats are written back to back.
const BURST_DURATION: Duration = Duration::from_millis(2_400);
const READ_DURATION: Duration = Duration::from_millis(600);
/// Other processes slow this one down; with many short rounds, some of them are undisturbed.
const ROUNDS: u32 = 12;
const MIN_ROUNDS: usize = 3;
/// Users per read of statuses.
const ASKED: usize = 1_000;
/// Users whose deadlines are due at once.
const DUE_USERS: usize = 1_000;

/// Costs with one number of users. Times are in seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PresenceCosts {
    pub users: usize,
    pub engine: Engine,
    /// Per user that connects.
    pub connect: ResourceUsage,
    /// Per heartbeat, written back to back.
    pub heartbeat_burst: ResourceUsage,
    /// Per heartbeat at one per user every 20 s, without the costs of an idle node.
    pub heartbeat_paced: ResourceUsage,
    /// Per second at one heartbeat per user every 20 s.
    pub second: ResourceUsage,
    /// Per read of 1,000 statuses.
    pub statuses: ResourceUsage,
    pub count: ResourceUsage,
    /// Per sweep without due users.
    pub sweep: ResourceUsage,
    /// Per due user that a sweep finds alive.
    pub look: ResourceUsage,
    /// Bytes per user, in this process and in the server.
    pub memory: f64,
}

impl PresenceCosts {
    pub async fn measure(engine: Engine, users: usize) -> anyhow::Result<Self> {
        let online = OnlineUsers::new(engine, users).await?;
        let fixture = &online.fixture;
        let memory = resident("self")? as f64 + fixture.server_memory().await?;
        let before = fixture.usage().await?;
        online.connect().await?;
        fixture.settle().await?;
        let connect = (fixture.usage().await? - before).per(users as f64);
        let memory = resident("self")? as f64 + fixture.server_memory().await? - memory;
        let (second, heartbeat_paced) = measure_paced(&online).await?;
        let heartbeat_burst = measure_burst(&online).await?;
        fixture.settle().await?;
        while online.presence.sweep().await? > 0 {}
        let sweep =
            measure_calls(&online, async |_| online.presence.sweep().await.map(drop)).await?;
        let count =
            measure_calls(&online, async |_| online.presence.count().await.map(drop)).await?;

        let statuses = measure_calls(&online, async |number| {
            let users = online.sample(ASKED, number);
            online.presence.statuses(&users).await.map(drop)
        });
        let statuses = statuses.await?;
        let look = measure_due_users(&online).await?;
        fixture.store.close().await;
        Ok(Self {
            users,
            engine,
            connect,
            heartbeat_burst,
            heartbeat_paced,
            second,
            statuses,
            count,
            sweep,
            look,
            memory: memory / users as f64,
        })
    }
}

/// Cost of a second in production, and of each heartbeat in it, disk writes included.
async fn measure_paced(online: &OnlineUsers) -> anyhow::Result<(ResourceUsage, ResourceUsage)> {
    let before = online.fixture.usage().await?;
    tokio::time::sleep(IDLE_DURATION).await;
    let idle = (online.fixture.usage().await? - before).per(IDLE_DURATION.as_secs_f64());
    let before = online.fixture.usage().await?;
    let mut heartbeats = 0;
    for number in 0..PACED_SECONDS {
        let next = Instant::now() + Duration::from_secs(1);
        heartbeats += online.simulate_second(number).await?;
        tokio::time::sleep_until(next.into()).await;
    }
    online.fixture.settle().await?;
    let usage = online.fixture.usage().await? - before;
    let by_heartbeats = usage - idle.per(1.0 / usage.wall_secs);
    Ok((
        by_heartbeats.per(PACED_SECONDS as f64) + idle,
        by_heartbeats.per(heartbeats as f64),
    ))
}

/// Cost of each heartbeat, written back to back.
async fn measure_burst(online: &OnlineUsers) -> anyhow::Result<ResourceUsage> {
    let mut second = PACED_SECONDS;
    let (cheapest, all) = measure_rounds(online, BURST_DURATION, async || {
        second += 1;
        online.simulate_second(second).await
    })
    .await?;
    Ok(ResourceUsage {
        wall_secs: all.wall_secs,
        ..cheapest
    })
}

/// Cost of each call.
async fn measure_calls(
    online: &OnlineUsers,
    work: impl AsyncFn(usize) -> parlor_chat::api::error::Result<()>,
) -> anyhow::Result<ResourceUsage> {
    online.presence.renew_lease().await?;
    let mut number = 0;
    let (cheapest, _) = measure_rounds(online, READ_DURATION, async || {
        number += 1;
        work(number).await?;
        Ok(1)
    })
    .await?;
    Ok(cheapest)
}

/// Repeats work that returns the number of its operations. Returns the cost per operation in the cheapest round, and in
/// all rounds together.
async fn measure_rounds(
    online: &OnlineUsers,
    time: Duration,
    mut work: impl AsyncFnMut() -> anyhow::Result<u64>,
) -> anyhow::Result<(ResourceUsage, ResourceUsage)> {
    let mut cheapest: Option<ResourceUsage> = None;
    let (mut all, mut operations) = (ResourceUsage::default(), 0);
    let end = Instant::now() + time;
    for round in 0.. {
        if round >= MIN_ROUNDS && Instant::now() > end {
            break;
        }
        let end = Instant::now() + time / ROUNDS;
        let before = online.fixture.usage().await?;
        let mut done = 0;
        while done == 0 || Instant::now() < end {
            done += work().await?;
        }
        let usage = online.fixture.usage().await? - before;
        (all, operations) = (all + usage, operations + done);
        cheapest = Some(cheaper(cheapest, usage.per(done as f64)));
    }
    let cheapest = cheapest.expect("there is at least one round");
    Ok((cheapest, all.per(operations as f64)))
}

/// Cost of each due user that a sweep finds alive.
async fn measure_due_users(online: &OnlineUsers) -> anyhow::Result<ResourceUsage> {
    let mut cheapest: Option<ResourceUsage> = None;
    for number in 0..ROUNDS as usize {
        online
            .make_deadlines_due(&online.sample(DUE_USERS, number))
            .await?;
        let before = online.fixture.usage().await?;
        let checked = online.presence.sweep().await?;
        let usage = online.fixture.usage().await? - before;
        cheapest = Some(cheaper(cheapest, usage.per(checked as f64)));
    }
    Ok(cheapest.expect("there is at least one round"))
}

fn cheaper(one: Option<ResourceUsage>, other: ResourceUsage) -> ResourceUsage {
    one.filter(|one| one.cpu() < other.cpu()).unwrap_or(other)
}
