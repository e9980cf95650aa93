//! Tests of `parlor cleanup presence`.

use parlor_testkit::{Redis, SocketIoTestClient, eventually};
use serde_json::json;

use crate::http::client::{node, ready};
use crate::support::run;
use crate::tokens::user;

#[tokio::test]
async fn keys_that_say_online_after_a_crash_get_a_ttl() {
    let redis = Redis::start().await;
    let mut old = redis.connection().await;
    let url = redis.url();
    let start = node().env("PARLOR_STORE__URL", &url);
    let start = start.env("PARLOR_STORE__TIMEOUT", "10s");
    let mut server = ready(start.env("PARLOR_KEYS__PRESET", "chat-service")).await;
    let auth = json!({ "token": user("alice"), "deviceId": "phone" });
    let socket = SocketIoTestClient::connect(server.http_address(), &auth).await;
    let socket = socket.unwrap();
    let flag = "user:alice:online";
    eventually("alice is online", async || {
        let get = redis::cmd("GET").arg(flag).take();
        let online: Option<String> = get.query_async(&mut old.clone()).await.unwrap();
        online.as_deref() == Some("true")
    })
    .await;
    // A user of another gateway, and a user of both.
    let mut pipe = redis::pipe();
    pipe.set("user:bob:online", "true")
        .sadd("user:bob:sockets", "b1");
    pipe.exec_async(&mut old).await.unwrap();

    let cleanup = [
        "cleanup",
        "presence",
        "--store",
        &url,
        "--preset",
        "chat-service",
    ];
    let alive = run(&cleanup).await;
    assert_eq!(alive.exit_code, 1, "{alive:?}");
    assert!(alive.stdout.contains("is alive"), "{alive:?}");
    server.kill9();
    drop(socket);
    eventually("the lease has ended", async || {
        run(&cleanup).await.exit_code == 0
    })
    .await;

    let shown = run(&cleanup).await.ok();
    assert!(
        shown.contains(flag) && shown.contains("1 users; nothing was changed"),
        "{shown}"
    );
    let ttls = async || {
        let keys = [
            flag,
            "user:alice:sockets",
            "user:bob:online",
            "user:bob:sockets",
        ];
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd("TTL").arg(key);
        }
        pipe.query_async::<Vec<i64>>(&mut old.clone())
            .await
            .unwrap()
    };
    assert_eq!(ttls().await, [-1; 4]);
    let done = run(&[&cleanup[..], &["--yes"]].concat()).await.ok();
    assert!(done.contains("1 users: the TTLs are set"), "{done}");
    let after = ttls().await;
    assert!(
        after[..2].iter().all(|ttl| *ttl != -1 && *ttl <= 10),
        "{after:?}"
    );
    assert_eq!(after[2..], [-1; 2]);
    let again = run(&cleanup).await.ok();
    assert!(again.contains("no key to clean up"), "{again}");
}

#[tokio::test]
async fn layouts_with_ttls_need_no_cleanup() {
    let redis = Redis::start().await;
    let shown = run(&["cleanup", "presence", "--store", &redis.url()])
        .await
        .ok();
    assert!(shown.contains("nothing to do"), "{shown}");
}
