//! A part of the behaviours on the other servers: a Cluster, which refuses a step that leaves its slot, and Valkey.

use parlor_chat::keys::PresenceLayout;
use parlor_testkit::Cluster;

use super::world::World;
use super::{crash, devices, grace, status};

const LAYOUTS: [PresenceLayout; 4] = [
    PresenceLayout::Devices,
    PresenceLayout::Document,
    PresenceLayout::Sockets,
    PresenceLayout::Status,
];

async fn on(mut open: impl AsyncFnMut(PresenceLayout) -> World) {
    for layout in LAYOUTS {
        println!("{layout}");
        devices::a_first_device_is_announced_once(open(layout).await).await;
        devices::the_last_device_to_leave_is_announced_once(open(layout).await).await;
        grace::a_quick_reconnect_is_not_announced(open(layout).await).await;
        status::an_invisible_user_is_shown_and_announced_as_offline(open(layout).await).await;
        crash::a_dead_node_takes_its_devices_and_no_others(open(layout).await).await;
    }
}

#[tokio::test]
async fn the_layouts_live_on_a_cluster() {
    let mut cluster = Cluster::start().await;
    on(async |layout| World::cluster(&mut cluster, layout).await).await;
}

#[tokio::test]
async fn the_layouts_live_on_valkey() {
    on(World::valkey).await;
}
