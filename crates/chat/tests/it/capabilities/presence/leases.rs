//! Leases of nodes.

use std::sync::Arc;

use parlor_chat::context::ChatContext;
use parlor_chat::ids::NodeId;
use parlor_chat::keys::PresenceLayout;
use parlor_chat::nodes::{LeaseRenewal, LocalNode};
use parlor_testkit::eventually;

use super::fixture::{GRACE, LEASE, PresenceFixture};
use super::on_every_engine;
use crate::support::Fixture;

on_every_engine! {
    a_node_that_stops_leaves_the_lease_to_its_successor;
    a_node_that_could_not_renew_in_time_has_lost_its_lease;
}

fn node(fixture: &PresenceFixture, id: &str) -> LocalNode {
    let ctx = ChatContext::new(fixture.store.clone(), fixture.keys.clone());
    LocalNode::new(ctx, NodeId::new(id).unwrap(), GRACE)
}

async fn a_node_that_stops_leaves_the_lease_to_its_successor(fixture: PresenceFixture) {
    let (old, new) = (node(&fixture, "n9"), node(&fixture, "n9"));
    old.acquire_lease().await.unwrap();
    new.acquire_lease().await.unwrap();
    old.release_lease().await.unwrap();
    assert_eq!(new.renew_lease().await.unwrap(), LeaseRenewal::Kept);
    let found = async || {
        let mut score = redis::cmd("ZSCORE");
        score.arg(fixture.keys.node_index()).arg("n9");
        let mut store = fixture.store.clone();
        let score: Option<f64> = score.query_async(&mut store).await.unwrap();
        score.is_some()
    };
    assert!(found().await);
    new.release_lease().await.unwrap();
    assert!(!found().await);
    assert!(!old.is_alive(&NodeId::new("n9").unwrap()).await.unwrap());
}

/// The lease key may still exist: written by an attempt whose reply was lost.
async fn a_node_that_could_not_renew_in_time_has_lost_its_lease(fixture: PresenceFixture) {
    let node = node(&fixture, "n9");
    node.acquire_lease().await.unwrap();
    fixture.advance(LEASE * 2).await;
    let mut lease = redis::cmd("SET");
    lease
        .arg(fixture.keys.node_lease(node.id()))
        .arg(node.boot_id());
    lease.exec_async(&mut fixture.store.clone()).await.unwrap();
    assert_eq!(node.renew_lease().await.unwrap(), LeaseRenewal::Lost);
    assert_eq!(node.renew_lease().await.unwrap(), LeaseRenewal::Kept);
}

/// One server of a Cluster may fail over with the leases of some nodes, while other nodes renew theirs without a break.
#[tokio::test]
async fn no_node_reaps_others_directly_after_a_store_restart() {
    let mut fixture = PresenceFixture::redis(PresenceLayout::Devices).await;
    let judge = Arc::new(node(&fixture, "n9"));
    judge.acquire_lease().await.unwrap();
    let keep = async |fixture: &PresenceFixture| {
        for _ in 0..11 {
            fixture.advance(LEASE / 5).await;
            judge.renew_lease().await.unwrap();
        }
    };
    keep(&fixture).await;
    assert!(judge.may_expire_others());
    let save = redis::cmd("SAVE");
    save.exec_async(&mut fixture.store.clone()).await.unwrap();
    let server = fixture.server.as_mut().unwrap();
    server.kill9();
    server.restart().await;
    eventually("the lease is renewed", async || {
        judge.renew_lease().await.is_ok()
    })
    .await;
    assert!(!judge.may_expire_others());
    keep(&fixture).await;
    assert!(judge.may_expire_others());
}
