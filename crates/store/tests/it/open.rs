//! Opening stores of every kind, and the errors of stores that cannot be opened.

use parlor_store::{Store, StoreKind, StoreOpenError, StoreOptions};
use parlor_testkit::{Redis, SentinelSet};
use redis::AsyncTypedCommands;

use crate::fixture::{options, shared_cluster};

async fn open_error(options: StoreOptions) -> StoreOpenError {
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
    let with_certificates = StoreOptions {
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
async fn an_unknown_certificate_authority_is_rejected() {
    let server = Redis::options().tls().start().await;
    let other = Redis::options().tls().start().await;
    let with_wrong_ca = StoreOptions {
        ca_cert: Some(other.ca_cert().to_owned()),
        ..options(&server.url())
    };
    assert!(matches!(
        open_error(with_wrong_ca).await,
        StoreOpenError::Unreachable { .. }
    ));
    let insecure = format!("{}/0#insecure", server.url());
    Store::open(options(&insecure)).await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_an_authentication_error() {
    let server = Redis::options().password("right").start().await;
    let wrong = format!("redis://:wrong@127.0.0.1:{}", server.port());
    let error = open_error(options(&wrong)).await;
    assert!(
        matches!(error, StoreOpenError::AuthenticationFailed { .. }),
        "{error}"
    );
    let none = format!("redis://127.0.0.1:{}", server.port());
    let error = open_error(options(&none)).await;
    assert!(
        matches!(error, StoreOpenError::AuthenticationFailed { .. }),
        "{error}"
    );
    assert!(!error.to_string().contains("wrong"));
    Store::open(options(&server.url())).await.unwrap();
}

#[tokio::test]
async fn a_user_without_info_gets_a_new_epoch_with_each_open() {
    let server = Redis::options()
        .acl_user("small", "pw", "~* &* +@all -info")
        .start()
        .await;
    let first = Store::open(options(&server.url_as("small", "pw")))
        .await
        .unwrap();
    first.clone().set("k", "v").await.unwrap();
    // The first store may see the epoch of the second one later.
    let before = *first.epoch().borrow();
    let second = Store::open(options(&server.url_as("small", "pw")))
        .await
        .unwrap();
    assert!(*second.epoch().borrow() > before);
}

#[tokio::test]
async fn opening_an_unreachable_server_fails() {
    let mut server = Redis::start().await;
    server.kill9();
    let error = open_error(options(&server.url())).await;
    assert!(
        matches!(error, StoreOpenError::Unreachable { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn opening_a_replica_fails_and_names_the_fix() {
    let (primary, replica) = (Redis::start().await, Redis::start().await);
    let mut cmd = redis::cmd("REPLICAOF");
    cmd.arg("127.0.0.1")
        .arg(primary.port())
        .exec_async(&mut replica.connection().await)
        .await
        .unwrap();
    let error = open_error(options(&replica.url())).await.to_string();
    assert!(error.contains("give the address of its primary"), "{error}");
}

#[tokio::test]
async fn a_wrong_url_scheme_error_names_the_right_scheme() {
    let server = Redis::start().await;
    let as_cluster = server.url().replace("redis://", "redis+cluster://");
    let error = open_error(options(&as_cluster)).await.to_string();
    assert!(error.contains("write `redis://` instead"), "{error}");

    let node = shared_cluster().await.node_urls()[0].clone();
    let error = open_error(options(&node)).await.to_string();
    assert!(
        error.contains("write `redis+cluster://` instead"),
        "{error}"
    );
}

#[tokio::test]
async fn a_sentinel_url_connects_to_the_primary() {
    let sentinel = SentinelSet::options().password("secret").start().await;
    let mut store = Store::open(options(&sentinel.url())).await.unwrap();
    assert_eq!(store.kind(), StoreKind::Sentinel);
    store.set("k", "v").await.unwrap();
    let unknown = sentinel
        .url()
        .replace(&format!("/{}", sentinel.name()), "/nobody");
    let error = open_error(options(&unknown)).await.to_string();
    assert!(error.contains("no sentinel knows `nobody`"), "{error}");
}

#[tokio::test]
async fn several_connections_share_the_work() {
    let server = Redis::start().await;
    let store = Store::open(StoreOptions {
        connections_per_server: 3,
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
