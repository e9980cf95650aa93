//! Load tests during which a node or a store is killed.

use std::time::Duration;

use super::clients::{Course, Size};
use super::deployment::{Ground, USERS, World};
use super::verify::assert_right;

/// Bounded by steps instead of time, so that the kill happens during the load on a slow machine, too.
const SIZE: Size = Size {
    length: Duration::from_secs(600),
    steps_per_client: 20,
    step_interval: Duration::from_millis(150),
};
/// Number of acknowledged messages before the kill: half of all.
const MIDDLE: usize = USERS * SIZE.steps_per_client / 4;

/// Runs a load with a disturbance, then checks that no acknowledged message or change is lost.
async fn disturbed(ground: Ground, disturb: impl AsyncFnOnce(&mut World, &Course)) {
    let mut world = World::populated(ground).await;
    let course = Course::new(&world, SIZE);
    let (acknowledged, ()) = tokio::join!(course.run(), disturb(&mut world, &course));
    assert_right(&mut world, &acknowledged).await;
}

async fn kill_the_node(world: &mut World, course: &Course) {
    course.reaches(MIDDLE).await;
    course.calm();
    world.nodes[0].kill9();
    world.restart_node(0).await;
}

#[tokio::test]
async fn a_killed_node_loses_nothing_embedded() {
    disturbed(Ground::Embedded, kill_the_node).await;
}

#[tokio::test]
async fn a_killed_node_loses_nothing_on_redis() {
    disturbed(Ground::Shared(1), kill_the_node).await;
}

#[tokio::test]
async fn an_emptied_redis_is_filled_again() {
    disturbed(Ground::Shared(1), async |world, course| {
        course.reaches(MIDDLE).await;
        course.calm();
        world.redis().restart_empty().await;
    })
    .await;
}

#[tokio::test]
async fn a_redis_restored_from_an_older_snapshot_is_repaired() {
    disturbed(Ground::Shared(1), async |world, course| {
        course.reaches(MIDDLE / 2).await;
        let mut connection = world.redis().connection().await;
        let saved = redis::cmd("SAVE").exec_async(&mut connection).await;
        saved.unwrap();
        course.reaches(MIDDLE).await;
        course.calm();
        world.redis().kill9();
        world.redis().restart().await;
    })
    .await;
}

#[tokio::test]
async fn no_message_is_lost_when_one_of_three_nodes_is_killed() {
    disturbed(Ground::Shared(3), async |world, course| {
        course.reaches(MIDDLE).await;
        course.calm();
        world.nodes[1].kill9();
    })
    .await;
}
