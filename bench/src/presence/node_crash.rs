//! Time until the users of a crashed node are offline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use parlor_chat::ids::{NodeId, UserId};
use parlor_chat::keys::KeySettings;
use parlor_chat::presence::{MAX_USERS_PER_QUERY, PresenceStatus};
use redis::cmd;

use super::online_users::{connect_all, device};
use crate::measure::format_thousands;
use crate::store_fixture::{Engine, StoreFixture};

const USERS: usize = 20_000;
/// Longer than lease, grace period and the slowest reaper.
const OFFLINE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Runs two nodes with the timeouts of production; one stops without closing.
pub async fn run(engine: Engine) -> anyhow::Result<()> {
    let fixture = StoreFixture::open(engine, None).await?;
    let (dying, keys) = fixture.node("dying", KeySettings::default()).await?;
    let (other, _) = fixture.node("other", KeySettings::default()).await?;
    let (dying, other) = (Arc::new(dying), Arc::new(other));
    let (last_ticks, _ticks) = (
        dying.start_background_tasks(),
        other.start_background_tasks(),
    );
    let devices = (0..USERS).map(device).collect::<anyhow::Result<Vec<_>>>()?;
    connect_all(&dying, &devices, engine).await?;
    // A user is removed from the set of the node directly after the user was announced as offline.
    let mut left = cmd("SCARD");
    left.arg(keys.node_presence_users(&NodeId::new("dying")?));
    let mut store = fixture.store.clone();
    drop(last_ticks);
    let died = Instant::now();
    let mut first = None;
    loop {
        let left: usize = left.query_async(&mut store).await?;
        if left < USERS && first.is_none() {
            first = Some((died.elapsed(), left, fixture.usage().await?));
        }
        if left == 0 {
            break;
        }
        ensure!(
            died.elapsed() < OFFLINE_TIMEOUT,
            "{left} users are still online"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let last = died.elapsed();
    let (first, rest, before) = first.expect("the set had all users at the start");
    let spent = fixture.usage().await? - before;
    let each = spent.per(rest as f64);
    let users: Vec<UserId> = devices.into_iter().map(|device| device.user).collect();
    for page in users.chunks(MAX_USERS_PER_QUERY) {
        let mut seen = other.statuses(page).await?.into_iter();
        ensure!(
            seen.all(|user| user.status == PresenceStatus::Offline),
            "a user is still online"
        );
    }
    println!(
        "{}: first users offline {:.1} s after the crash, the last {:.1} s; {} users/s; CPU {:.0} µs/user (node {:.0}, flush {:.0}, server {:.0})",
        engine.name(),
        first.as_secs_f64(),
        last.as_secs_f64(),
        format_thousands(1.0 / each.wall_secs),
        each.cpu() * 1e6,
        each.node_cpu_secs * 1e6,
        each.flush_cpu_secs * 1e6,
        each.server * 1e6,
    );
    fixture.store.close().await;
    Ok(())
}
