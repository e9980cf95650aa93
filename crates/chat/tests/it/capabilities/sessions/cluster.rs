//! Some of the tests on a Redis Cluster, which rejects a script that touches keys of another slot.

use parlor_testkit::RedisCluster;

use super::fixture::SessionsFixture;
use super::{begin, end, end_notifications, store_data_loss};
use crate::support::Fixture;

#[tokio::test]
async fn sessions_work_on_a_cluster() {
    let mut cluster = RedisCluster::start().await;
    begin::a_session_is_stored_as_documented(SessionsFixture::cluster(&mut cluster, ()).await)
        .await;
    begin::a_session_lasts_a_week_after_it_was_last_used(
        SessionsFixture::cluster(&mut cluster, ()).await,
    )
    .await;
    end::a_logout_ends_the_session_and_its_tokens(SessionsFixture::cluster(&mut cluster, ()).await)
        .await;
    store_data_loss::a_lost_session_comes_back_from_the_row(
        SessionsFixture::cluster(&mut cluster, ()).await,
    )
    .await;
    end_notifications::a_block_reaches_the_connections_of_every_node(
        SessionsFixture::cluster(&mut cluster, ()).await,
    )
    .await;
}
