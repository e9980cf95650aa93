//! Load test without a fault.

use std::time::Duration;

use super::clients::{Course, Size};
use super::deployment::{Ground, World};
use super::verify::assert_right;

/// Long enough for many concurrent clients, and low enough for a busy machine.
const SIZE: Size = Size {
    length: Duration::from_secs(20),
    steps_per_client: 60,
    step_interval: Duration::from_millis(300),
};

async fn all_clients_write_and_read(ground: Ground) {
    let mut world = World::populated(ground).await;
    let acknowledged = Course::new(&world, SIZE).run().await;
    assert_right(&mut world, &acknowledged).await;
}

#[tokio::test]
async fn two_hundred_clients_write_and_read_together_embedded() {
    all_clients_write_and_read(Ground::Embedded).await;
}

#[tokio::test]
async fn two_hundred_clients_write_and_read_together_on_redis() {
    all_clients_write_and_read(Ground::Shared(1)).await;
}
