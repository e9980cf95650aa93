//! Some of the tests on other servers: a Cluster, which rejects a script that leaves its slot, and Valkey.

use parlor_chat::keys::PresenceLayout;
use parlor_testkit::RedisCluster;

use super::fixture::PresenceFixture;
use super::{crash, devices, grace, removed_devices, status};
use crate::support::Fixture;

const LAYOUTS: [PresenceLayout; 4] = [
    PresenceLayout::Devices,
    PresenceLayout::Document,
    PresenceLayout::Sockets,
    PresenceLayout::Status,
];

async fn on(mut open: impl AsyncFnMut(PresenceLayout) -> PresenceFixture) {
    for layout in LAYOUTS {
        println!("{layout}");
        devices::a_first_device_publishes_online_once(open(layout).await).await;
        devices::a_second_device_is_stored_and_publishes_no_event(open(layout).await).await;
        devices::a_second_device_that_disconnects_publishes_no_event(open(layout).await).await;
        devices::the_last_device_that_disconnects_publishes_offline_once(open(layout).await).await;
        removed_devices::a_device_removed_on_another_node_stays_removed(open(layout).await).await;
        grace::a_device_without_heartbeats_expires_once(open(layout).await).await;
        grace::a_reconnect_within_the_grace_period_publishes_no_event(open(layout).await).await;
        status::an_invisible_user_is_stored_and_published_as_offline(open(layout).await).await;
        status::away_and_busy_publish_no_event(open(layout).await).await;
        crash::a_store_outage_makes_no_user_offline(open(layout).await).await;
        crash::only_devices_of_a_dead_node_go_offline(open(layout).await).await;
    }
}

#[tokio::test]
async fn every_layout_works_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    on(async |layout| PresenceFixture::cluster(&mut cluster, layout).await).await;
}

#[tokio::test]
async fn every_layout_works_on_valkey() {
    on(PresenceFixture::valkey).await;
}
