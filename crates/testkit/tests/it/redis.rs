//! Tests of single servers: Redis and Valkey, with and without passwords, users, TLS.

use std::fs;

use parlor_testkit::{Redis, Valkey, connect_with_test_timeout, is_running};
use redis::{AsyncTypedCommands, Client, ClientTlsConfig, TlsCertificates};

#[tokio::test]
async fn redis_starts_answers_and_is_gone_after_drop() {
    let server = Redis::start().await;
    let pid = server.pid();
    assert!(is_running(pid));
    let mut connection = server.connection().await;
    connection.set("key", "value").await.unwrap();
    assert_eq!(
        connection.get("key").await.unwrap().as_deref(),
        Some("value")
    );
    assert!(server.url().ends_with(&server.port().to_string()));
    drop(server);
    assert!(!is_running(pid));
}

#[tokio::test]
async fn valkey_starts_answers_and_is_gone_after_drop() {
    let server = Valkey::start().await;
    let pid = server.pid();
    let info: String = redis::cmd("INFO")
        .arg("server")
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    assert!(info.contains("server_name:valkey"), "{info}");
    drop(server);
    assert!(!is_running(pid));
}

#[tokio::test]
async fn extra_config_lines_reach_the_server() {
    let server = Redis::options().config("maxmemory 3mb").start().await;
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("maxmemory");
    let (_, value): (String, u64) = ask
        .query_async(&mut server.connection().await)
        .await
        .unwrap();
    assert_eq!(value, 3 << 20);
}

#[tokio::test]
async fn a_password_is_demanded_and_part_of_the_url() {
    let server = Redis::options().password("p@ss \"word").start().await;
    assert!(server.connection().await.ping().await.is_ok());
    let nobody = Client::open(format!("redis://127.0.0.1:{}", server.port())).unwrap();
    let refused = async { connect_with_test_timeout(&nobody).await?.ping().await }.await;
    assert_eq!(refused.unwrap_err().code(), Some("NOAUTH"));
}

#[tokio::test]
async fn a_user_may_do_what_its_rules_allow() {
    let server = Redis::options()
        .acl_user("alice", "secret", "~chat:* &* +@all -@admin")
        .start()
        .await;
    let alice = Client::open(server.url_as("alice", "secret")).unwrap();
    let mut alice = connect_with_test_timeout(&alice).await.unwrap();
    alice.set("chat:1", "x").await.unwrap();
    assert_eq!(
        alice.set("other", "x").await.unwrap_err().code(),
        Some("NOPERM")
    );

    let wrong = Client::open(server.url_as("alice", "wrong")).unwrap();
    assert!(connect_with_test_timeout(&wrong).await.is_err());
}

#[tokio::test]
async fn tls_works_with_the_authority_and_fails_without() {
    let server = Redis::options()
        .tls()
        .acl_user("alice", "secret", "~* &* +@all")
        .start()
        .await;
    assert!(server.url().starts_with("rediss://"));
    assert!(server.connection().await.ping().await.is_ok());

    let ca = fs::read(server.ca_cert()).unwrap();
    let trusting = TlsCertificates {
        client_tls: None,
        root_cert: Some(ca),
    };
    let alice = Client::build_with_tls(server.url_as("alice", "secret"), trusting).unwrap();
    assert!(
        connect_with_test_timeout(&alice)
            .await
            .unwrap()
            .ping()
            .await
            .is_ok()
    );

    let stranger = Client::open(server.url()).unwrap();
    assert!(connect_with_test_timeout(&stranger).await.is_err());
}

#[tokio::test]
async fn a_server_can_demand_client_certificates() {
    let server = Redis::options()
        .tls_with_client_certificates()
        .start()
        .await;
    let ca = Some(fs::read(server.ca_cert()).unwrap());
    let client_tls = Some(ClientTlsConfig {
        client_cert: fs::read(server.client_cert()).unwrap(),
        client_key: fs::read(server.client_key()).unwrap(),
    });
    let with = TlsCertificates {
        client_tls,
        root_cert: ca.clone(),
    };
    let with = Client::build_with_tls(server.url(), with).unwrap();
    assert!(
        connect_with_test_timeout(&with)
            .await
            .unwrap()
            .ping()
            .await
            .is_ok()
    );

    let without = TlsCertificates {
        client_tls: None,
        root_cert: ca,
    };
    let without = Client::build_with_tls(server.url(), without).unwrap();
    let refused = async { connect_with_test_timeout(&without).await?.ping().await }.await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn a_restart_keeps_port_and_data_unless_told_otherwise() {
    let mut server = Redis::start().await;
    let (port, pid) = (server.port(), server.pid());
    server.connection().await.set("key", "value").await.unwrap();

    server.restart().await;
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert!(!is_running(pid));
    assert!(server.connection().await.exists("key").await.unwrap());

    server.restart_empty().await;
    assert!(!server.connection().await.exists("key").await.unwrap());
}

#[tokio::test]
async fn a_durable_server_keeps_its_writes_through_kill_9() {
    let mut server = Redis::options().durable().start().await;
    server.connection().await.set("key", "value").await.unwrap();
    server.kill9();
    assert!(!server.is_running());
    server.restart().await;
    assert!(server.connection().await.exists("key").await.unwrap());
    server.restart_empty().await;
    assert!(!server.connection().await.exists("key").await.unwrap());
}

#[tokio::test]
async fn a_paused_server_answers_once_it_goes_on() {
    let mut server = Redis::start().await;
    let mut connection = server.connection().await;
    connection.ping().await.unwrap();
    server.pause();
    let mut asking = std::pin::pin!(connection.ping());
    // Silence cannot be awaited; a running server answers in much less than 200 ms.
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), &mut asking).await;
    assert!(early.is_err());
    server.resume();
    assert_eq!(asking.await.unwrap(), "PONG");
}
