//! Reads the statuses of many users, and of none.

use parlor_chat::api::error::Error;
use parlor_chat::ids::UserId;
use parlor_chat::presence::{MAX_USERS_PER_QUERY, PresenceStatus};

use super::fixture::{PresenceFixture, socket_device, user};
use super::on_every_engine;

on_every_engine! {
    a_thousand_users_are_read_in_the_order_of_the_request;
    an_unknown_user_is_offline_with_version_zero;
    users_are_counted_and_not_devices;
}

async fn a_thousand_users_are_read_in_the_order_of_the_request(fixture: PresenceFixture) {
    let users: Vec<UserId> = (0..MAX_USERS_PER_QUERY)
        .map(|it| user(&format!("u{it}")))
        .collect();
    for at in [3, 700] {
        let device = socket_device(users[at].as_str(), &format!("s{at}"));
        fixture.nodes[0].connect(device).await.unwrap();
    }
    let statuses = fixture.nodes[1].statuses(&users).await.unwrap();
    let asked: Vec<_> = statuses.iter().map(|it| it.user_id.clone()).collect();
    assert_eq!(asked, users);
    let online = |it: &&usize| statuses[**it].status == PresenceStatus::Online;
    let all: Vec<usize> = (0..MAX_USERS_PER_QUERY).collect();
    assert_eq!(all.iter().filter(online).collect::<Vec<_>>(), [&3, &700]);

    let more = [users, vec![user("one-more")]].concat();
    let refused = fixture.nodes[1].statuses(&more).await.unwrap_err();
    assert!(
        matches!(refused, Error::TooMany { given: 1_001, .. }),
        "{refused}"
    );
    assert_eq!(fixture.nodes[1].statuses(&[]).await.unwrap(), []);
}

async fn an_unknown_user_is_offline_with_version_zero(fixture: PresenceFixture) {
    let seen = fixture.status("nobody").await;
    assert_eq!(seen.status, PresenceStatus::Offline);
    assert_eq!((seen.version, seen.last_seen), (0, None));
    let devices = fixture.nodes[0].devices(&user("nobody")).await.unwrap();
    assert_eq!(devices, []);
}

async fn users_are_counted_and_not_devices(fixture: PresenceFixture) {
    for who in 0..100 {
        for device in 0..2 {
            let device = socket_device(&format!("u{who}"), &format!("s{who}-{device}"));
            fixture.nodes[device_node(who)]
                .connect(device)
                .await
                .unwrap();
        }
    }
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 100);
    for who in 0..40 {
        for device in 0..2 {
            let device = socket_device(&format!("u{who}"), &format!("s{who}-{device}"));
            fixture.nodes[device_node(who)]
                .disconnect(&device)
                .await
                .unwrap();
        }
    }
    fixture.run_background_once().await;
    assert_eq!(fixture.nodes[0].count().await.unwrap(), 60);
}

fn device_node(who: usize) -> usize {
    who % 2
}
