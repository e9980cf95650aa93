//! Costs of presence with a given number of online users.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::online_users::Crowd;
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
    pub beat: ResourceUsage,
    /// Per heartbeat at one per user every 20 s, without the costs of an idle node.
    pub paced: ResourceUsage,
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
    pub async fn of(engine: Engine, users: usize) -> anyhow::Result<Self> {
        let crowd = Crowd::new(engine, users).await?;
        let ground = &crowd.ground;
        let memory = resident("self")? as f64 + ground.server_memory().await?;
        let before = ground.spent().await?;
        crowd.connect().await?;
        ground.settle().await?;
        let connect = (ground.spent().await? - before).each(users as f64);
        let memory = resident("self")? as f64 + ground.server_memory().await? - memory;
        let (second, paced) = paced(&crowd).await?;
        let beat = burst(&crowd).await?;
        ground.settle().await?;
        while crowd.presence.sweep().await? > 0 {}
        let sweep = calls(&crowd, async |_| crowd.presence.sweep().await.map(drop)).await?;
        let count = calls(&crowd, async |_| crowd.presence.count().await.map(drop)).await?;

        let statuses = calls(&crowd, async |number| {
            let users = crowd.some(ASKED, number);
            crowd.presence.statuses(&users).await.map(drop)
        });
        let statuses = statuses.await?;
        let look = looks(&crowd).await?;
        ground.store.close().await;
        Ok(Self {
            users,
            engine,
            connect,
            beat,
            paced,
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
async fn paced(crowd: &Crowd) -> anyhow::Result<(ResourceUsage, ResourceUsage)> {
    let before = crowd.ground.spent().await?;
    tokio::time::sleep(IDLE_DURATION).await;
    let idle = (crowd.ground.spent().await? - before).each(IDLE_DURATION.as_secs_f64());
    let before = crowd.ground.spent().await?;
    let mut beats = 0;
    for number in 0..PACED_SECONDS {
        let next = Instant::now() + Duration::from_secs(1);
        beats += crowd.second(number).await?;
        tokio::time::sleep_until(next.into()).await;
    }
    crowd.ground.settle().await?;
    let spent = crowd.ground.spent().await? - before;
    let by_beats = spent - idle.each(1.0 / spent.wall_secs);
    Ok((
        by_beats.each(PACED_SECONDS as f64) + idle,
        by_beats.each(beats as f64),
    ))
}

/// Cost of each heartbeat, written back to back.
async fn burst(crowd: &Crowd) -> anyhow::Result<ResourceUsage> {
    let mut second = PACED_SECONDS;
    let (quietest, all) = measure_rounds(crowd, BURST_DURATION, async || {
        second += 1;
        crowd.second(second).await
    })
    .await?;
    Ok(ResourceUsage {
        wall_secs: all.wall_secs,
        ..quietest
    })
}

/// Cost of each call.
async fn calls(
    crowd: &Crowd,
    work: impl AsyncFn(usize) -> parlor_chat::api::error::Result<()>,
) -> anyhow::Result<ResourceUsage> {
    crowd.presence.renew_lease().await?;
    let mut number = 0;
    let (quietest, _) = measure_rounds(crowd, READ_DURATION, async || {
        number += 1;
        work(number).await?;
        Ok(1)
    })
    .await?;
    Ok(quietest)
}

/// Repeats work that returns the number of its operations. Returns the cost per operation in the cheapest round, and in
/// all rounds together.
async fn measure_rounds(
    crowd: &Crowd,
    time: Duration,
    mut work: impl AsyncFnMut() -> anyhow::Result<u64>,
) -> anyhow::Result<(ResourceUsage, ResourceUsage)> {
    let mut quietest: Option<ResourceUsage> = None;
    let (mut all, mut operations) = (ResourceUsage::default(), 0);
    let end = Instant::now() + time;
    for round in 0.. {
        if round >= MIN_ROUNDS && Instant::now() > end {
            break;
        }
        let end = Instant::now() + time / ROUNDS;
        let before = crowd.ground.spent().await?;
        let mut done = 0;
        while done == 0 || Instant::now() < end {
            done += work().await?;
        }
        let spent = crowd.ground.spent().await? - before;
        (all, operations) = (all + spent, operations + done);
        quietest = Some(cheaper(quietest, spent.each(done as f64)));
    }
    let quietest = quietest.expect("there is at least one round");
    Ok((quietest, all.each(operations as f64)))
}

/// Cost of each due user that a sweep finds alive.
async fn looks(crowd: &Crowd) -> anyhow::Result<ResourceUsage> {
    let mut quietest: Option<ResourceUsage> = None;
    for number in 0..ROUNDS as usize {
        crowd
            .make_deadlines_due(&crowd.some(DUE_USERS, number))
            .await?;
        let before = crowd.ground.spent().await?;
        let looked = crowd.presence.sweep().await?;
        let spent = crowd.ground.spent().await? - before;
        quietest = Some(cheaper(quietest, spent.each(looked as f64)));
    }
    Ok(quietest.expect("there is at least one round"))
}

fn cheaper(one: Option<ResourceUsage>, other: ResourceUsage) -> ResourceUsage {
    one.filter(|one| one.cpu() < other.cpu()).unwrap_or(other)
}
