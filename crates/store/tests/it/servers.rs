//! Opening stores of every kind, and being told why one cannot be opened.

use parlor_store::{Kind, OpenError, Options, Store};
use parlor_testkit::{Redis, Sentinel};
use redis::AsyncTypedCommands;

use crate::fixture::{options, shared_cluster};

async fn refused(options: Options) -> OpenError {
    Store::open(options).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn tls_with_client_certificate_acl_user_and_database_number() {
    let rules = "~* &* +@all";
    let server = Redis::options()
        .tls_with_client_certificates()
        .acl_user("parlor", "p@ss/word", rules)
        .start()
        .await;
    let url = format!("{}/3", server.url_as("parlor", "p@ss/word"));
    let with_certificates = Options {
        ca_cert: Some(server.ca_cert().to_owned()),
        client_cert: Some(server.client_cert().to_owned()),
        client_key: Some(server.client_key().to_owned()),
        ..options(&url)
    };
    let mut store = Store::open(with_certificates).await.unwrap();
    store.set("k", "v").await.unwrap();
    let mut other = server.connection().await;
    assert_eq!(
        other.get("k").await.unwrap(),
        None,
        "database 0 is another one"
    );
    redis::cmd("SELECT")
        .arg(3)
        .exec_async(&mut other)
        .await
        .unwrap();
    assert_eq!(other.get("k").await.unwrap().as_deref(), Some("v"));
    let mut subscription = store.bus().subscribe("c").await.unwrap();
    store.bus().publish("c", "over tls").await.unwrap();
    assert_eq!(crate::bus::payload(&mut subscription).await, "over tls");
}

#[tokio::test]
async fn an_unknown_certificate_authority_is_refused() {
    let server = Redis::options().tls().start().await;
    let other = Redis::options().tls().start().await;
    let with_wrong_ca = Options {
        ca_cert: Some(other.ca_cert().to_owned()),
        ..options(&server.url())
    };
    assert!(matches!(
        refused(with_wrong_ca).await,
        OpenError::Away { .. }
    ));
    let insecure = format!("{}/0#insecure", server.url());
    Store::open(options(&insecure)).await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_told_as_such() {
    let server = Redis::options().password("right").start().await;
    let wrong = format!("redis://:wrong@127.0.0.1:{}", server.port());
    let error = refused(options(&wrong)).await;
    assert!(matches!(error, OpenError::Login { .. }), "{error}");
    let none = format!("redis://127.0.0.1:{}", server.port());
    let error = refused(options(&none)).await;
    assert!(matches!(error, OpenError::Login { .. }), "{error}");
    assert!(!error.to_string().contains("wrong"));
    Store::open(options(&server.url())).await.unwrap();
}

#[tokio::test]
async fn a_user_without_info_can_work_and_gets_a_new_epoch_each_time() {
    let server = Redis::options()
        .acl_user("small", "pw", "~* &* +@all -info")
        .start()
        .await;
    let first = Store::open(options(&server.url_as("small", "pw")))
        .await
        .unwrap();
    first.clone().set("k", "v").await.unwrap();
    // It may see the epoch of the second one later.
    let before = *first.epoch().borrow();
    let second = Store::open(options(&server.url_as("small", "pw")))
        .await
        .unwrap();
    assert!(*second.epoch().borrow() > before);
}

#[tokio::test]
async fn a_server_that_is_away_is_an_error() {
    let mut server = Redis::start().await;
    server.kill9();
    let error = refused(options(&server.url())).await;
    assert!(matches!(error, OpenError::Away { .. }), "{error}");
}

#[tokio::test]
async fn a_replica_is_refused_with_a_way_out() {
    let (primary, replica) = (Redis::start().await, Redis::start().await);
    let mut cmd = redis::cmd("REPLICAOF");
    cmd.arg("127.0.0.1")
        .arg(primary.port())
        .exec_async(&mut replica.connection().await)
        .await
        .unwrap();
    let error = refused(options(&replica.url())).await.to_string();
    assert!(error.contains("give the address of its primary"), "{error}");
}

#[tokio::test]
async fn the_wrong_kind_of_store_names_the_right_one() {
    let server = Redis::start().await;
    let as_cluster = server.url().replace("redis://", "redis+cluster://");
    let error = refused(options(&as_cluster)).await.to_string();
    assert!(error.contains("write `redis://` instead"), "{error}");

    let node = shared_cluster().await.node_urls()[0].clone();
    let error = refused(options(&node)).await.to_string();
    assert!(
        error.contains("write `redis+cluster://` instead"),
        "{error}"
    );
}

#[tokio::test]
async fn sentinels_lead_to_the_primary_with_its_password() {
    let sentinel = Sentinel::options().password("secret").start().await;
    let mut store = Store::open(options(&sentinel.url())).await.unwrap();
    assert_eq!(store.kind(), Kind::Sentinel);
    store.set("k", "v").await.unwrap();
    let unknown = sentinel
        .url()
        .replace(&format!("/{}", sentinel.name()), "/nobody");
    let error = refused(options(&unknown)).await.to_string();
    assert!(error.contains("no sentinel knows `nobody`"), "{error}");
}

#[tokio::test]
async fn several_connections_share_the_work() {
    let server = Redis::start().await;
    let store = Store::open(Options {
        connections: 3,
        ..options(&server.url())
    })
    .await
    .unwrap();
    let mut probe = server.connection().await;
    parlor_testkit::eventually(
        "three connections for commands and one for the bus",
        async || {
            let clients: String = redis::cmd("CLIENT")
                .arg("LIST")
                .query_async(&mut probe)
                .await
                .unwrap();
            clients.lines().count() == 5
        },
    )
    .await;
    for number in 0..30 {
        store.clone().set(number.to_string(), "v").await.unwrap();
    }
}
