//! Tests of `parlor serve`: start, health checks, shutdown, and errors that prevent the start.

use std::process::Stdio;

use parlor_testkit::{HttpConnection, Postgres, Redis, ServerProcess, eventually};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{PARLOR, ask, command, get, run_in};

#[tokio::test]
async fn serve_prints_its_addresses_and_exits_with_zero() {
    let mut node = ServerProcess::parlor_serve(PARLOR).start().await;
    assert_eq!(get(&node.http_url(), "/healthz").await.unwrap().0, 200);
    let ready = becomes(&node, 200).await;
    assert_eq!(ready["ready"], true);
    for part in ["store", "database", "node"] {
        assert_eq!(ready["parts"][part]["ready"], true, "{ready}");
    }

    node.wait_for_line("Try:").await;
    node.wait_for_line(&format!("http      {}", node.http_url()))
        .await;
    node.wait_for_line(&format!("socket.io {} (path /socket.io/)", node.http_url()))
        .await;
    node.wait_for_line("database  sqlite:").await;
    let line = node.wait_for_line("\"message\":\"listening\"").await;
    let log: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(log["level"], "INFO");

    assert_eq!(
        node.terminate_and_wait().await.code(),
        Some(0),
        "{}",
        node.output()
    );
    assert!(node.output().contains("\"stopped\""), "{}", node.output());
}

#[tokio::test]
async fn missing_resources_are_problems_with_a_code() {
    let node = ServerProcess::parlor_serve(PARLOR).start().await;
    for (method, path, status, code) in [
        ("GET", "/nothing/here?token=secret", 404, "not_found"),
        ("POST", "/healthz", 405, "method_not_allowed"),
    ] {
        let response = ask(&node.http_url(), method, path).await.unwrap();
        let (found, body) = (response.status, response.json());
        assert_eq!((found, &body["code"]), (status, &code.into()), "{body}");
        assert_eq!(body["status"], status, "{body}");
        let content_type = response.header("content-type");
        assert_eq!(content_type, Some("application/problem+json"));
        let allow = response.header("allow");
        let names_get = allow.is_some_and(|allow| allow.starts_with("GET"));
        assert_eq!(names_get, status == 405, "{allow:?}");
        for name in ["type", "title", "detail"] {
            assert!(
                body[name].as_str().is_some_and(|text| !text.is_empty()),
                "{body}"
            );
        }
        assert!(!body.to_string().contains("secret"), "{body}");
    }
}

#[tokio::test]
async fn a_connection_to_be_closed_ends_after_one_complete_response() {
    let node = ServerProcess::parlor_serve(PARLOR).start().await;
    let address = node.http_url().replace("http://", "").parse().unwrap();
    for (method, path, status) in [
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("POST", "/healthz", 405),
        ("GET", "/openapi.json", 200),
        ("GET", "/nothing/here", 404),
    ] {
        let mut connection = HttpConnection::open(address).await.unwrap();
        let headers = [("Connection", "close")];
        let response = connection.request(method, path, &headers, b"").await;
        assert_eq!(response.unwrap().status, status, "{method} {path}");
        let mut rest = Vec::new();
        connection.stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"", "{method} {path}");
    }
}

#[tokio::test]
async fn serve_continues_when_stdout_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["serve", "--http", "127.0.0.1:0", "--grpc", ""];
    let mut child = command(folder.path(), &args, &[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = log
            .next_line()
            .await
            .unwrap()
            .expect("the server logs that it listens");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        if line["message"] == "listening" {
            break line["http"].as_str().unwrap().to_owned();
        }
    };
    // The startup message is printed after this log line. If the closed pipe stopped the server, the requests would
    // fail.
    for _ in 0..20 {
        assert_eq!(get(&address, "/healthz").await.unwrap().0, 200);
    }
    assert_eq!(child.try_wait().unwrap(), None);
}

#[tokio::test]
async fn a_node_without_redis_is_degraded_and_strictly_not_ready() {
    let mut redis = Redis::start().await;
    let mut node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_STORE__URL", redis.url())
        .start()
        .await;
    becomes(&node, 200).await;
    redis.kill9();
    let degraded = eventually("the node is degraded", async || {
        let (status, answer) = get(&node.http_url(), "/readyz").await.unwrap();
        assert_eq!(status, 200, "{answer}");
        (answer["degraded"] == true).then_some(answer)
    })
    .await;
    assert_eq!(degraded["ready"], true);
    let reason = &degraded["parts"]["store"]["reason"];
    assert!(
        reason.as_str().is_some_and(|reason| !reason.is_empty()),
        "{reason}"
    );
    let (status, strict) = get(&node.http_url(), "/readyz?strict").await.unwrap();
    assert_eq!((status, &strict["ready"]), (503, &false.into()), "{strict}");
    assert_eq!(get(&node.http_url(), "/healthz").await.unwrap().0, 200);
    redis.restart().await;
    eventually("the node is not degraded", async || {
        let (status, answer) = get(&node.http_url(), "/readyz?strict").await.unwrap();
        status == 200 && answer["degraded"] == false
    })
    .await;
    assert_eq!(
        node.terminate_and_wait().await.code(),
        Some(0),
        "{}",
        node.output()
    );
}

#[tokio::test]
async fn a_hanging_redis_degrades_the_node_within_the_timeout() {
    let mut redis = Redis::start().await;
    let node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_STORE__URL", redis.url())
        .env("PARLOR_STORE__TIMEOUT", "200ms");
    let node = node.start().await;
    becomes(&node, 200).await;
    for (degraded, change) in [
        (true, Redis::pause as fn(&mut Redis)),
        (false, Redis::resume),
    ] {
        change(&mut redis);
        eventually("readiness follows", async || {
            let (status, answer) = get(&node.http_url(), "/readyz").await.unwrap();
            assert_eq!(status, 200, "{answer}");
            answer["degraded"] == degraded
        })
        .await;
    }
}

#[tokio::test]
async fn the_server_waits_for_an_unavailable_redis() {
    let mut redis = Redis::start().await;
    redis.kill9();
    let node = ServerProcess::parlor_serve(PARLOR)
        .env("REDIS_HOST", "127.0.0.1")
        .env("REDIS_PORT", redis.port().to_string());
    let mut node = node.start().await;
    let answer = becomes(&node, 503).await;
    let reason = answer["parts"]["store"]["reason"].to_string();
    assert!(reason.contains(&redis.port().to_string()), "{reason}");
    redis.restart().await;
    becomes(&node, 200).await;
    assert_eq!(
        node.terminate_and_wait().await.code(),
        Some(0),
        "{}",
        node.output()
    );
}

#[tokio::test]
async fn the_server_waits_for_an_unavailable_postgres_and_readiness_follows() {
    let mut postgres = Postgres::start().await;
    let database = postgres.create_database().await;
    postgres.kill9();
    let node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_DATABASE__URL", &database)
        .env("PARLOR_DATABASE__TIMEOUT", "1s");
    let mut node = node.start().await;
    let answer = becomes(&node, 503).await;
    let reason = answer["parts"]["database"]["reason"].to_string();
    assert!(reason.contains(&postgres.port().to_string()), "{reason}");
    assert_eq!(answer["parts"]["store"]["ready"], true, "{answer}");
    node.wait_for_line("database is unavailable; retrying")
        .await;
    postgres.restart().await;
    becomes(&node, 200).await;
    postgres.kill9();
    let answer = becomes(&node, 503).await;
    assert_eq!(answer["parts"]["database"]["ready"], false, "{answer}");
    assert_eq!(answer["parts"]["store"]["ready"], true, "{answer}");
    postgres.restart().await;
    becomes(&node, 200).await;
    assert_eq!(
        node.terminate_and_wait().await.code(),
        Some(0),
        "{}",
        node.output()
    );
}

#[tokio::test]
async fn a_hanging_postgres_does_not_delay_requests_beyond_the_timeout() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://parlor@{}/parlor", mute.local_addr().unwrap());
    let node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_DATABASE__URL", url)
        .env("PARLOR_DATABASE__TIMEOUT", "200ms");
    let mut node = node.start().await;
    let answer = becomes(&node, 503).await;
    let reason = answer["parts"]["database"]["reason"].to_string();
    assert!(reason.contains("no response within 200 ms"), "{reason}");
    assert_eq!(
        node.terminate_and_wait().await.code(),
        Some(0),
        "{}",
        node.output()
    );
}

#[tokio::test]
async fn a_wrong_database_fails_the_start() {
    let postgres = Postgres::start().await;
    let missing = postgres.url() + "_that_is_not_there";
    let said = refused(&[
        ("PARLOR_SERVER__HTTP", "127.0.0.1:0"),
        ("PARLOR_DATABASE__URL", &missing),
    ])
    .await;
    assert!(
        said.contains("cannot be opened") && said.contains("does not exist"),
        "{said}"
    );
}

#[tokio::test]
async fn a_store_of_another_database_fails_the_start() {
    let redis = Redis::start().await;
    let first = ServerProcess::parlor_serve(PARLOR).env("PARLOR_STORE__URL", redis.url());
    becomes(&first.start().await, 200).await;
    let mut second = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_STORE__URL", redis.url())
        .spawn();
    assert_eq!(
        second.wait_for_exit().await.code(),
        Some(1),
        "{}",
        second.output()
    );
    let said = second.output();
    assert!(
        said.contains("error: the store belongs to another database"),
        "{said}"
    );
}

#[tokio::test]
async fn a_store_of_a_newer_version_fails_the_start() {
    let redis = Redis::start().await;
    let serve = || ServerProcess::parlor_serve(PARLOR).env("PARLOR_STORE__URL", redis.url());
    let mut first = serve().start().await;
    becomes(&first, 200).await;
    let mut connection = redis.connection().await;
    let raised: u64 = redis::cmd("INCR")
        .arg("parlor:schema")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert!(first.terminate_and_wait().await.success());
    let mut older = serve().spawn();
    assert_eq!(older.wait_for_exit().await.code(), Some(1));
    let said = older.output();
    let error =
        format!("error: a newer version of Parlor has used the store (parlor:schema is {raised}");
    assert!(said.contains(&error), "{said}");
}

#[tokio::test]
async fn readyz_explains_why_a_node_cannot_register() {
    let redis = Redis::start().await;
    let mut connection = redis.connection().await;
    let foreign = redis::cmd("SET").arg("parlor:nodes").arg("x").to_owned();
    foreign.exec_async(&mut connection).await.unwrap();
    let node = ServerProcess::parlor_serve(PARLOR).env("PARLOR_STORE__URL", redis.url());
    let node = node.start().await;
    let answer = eventually("/readyz reports the reason", async || {
        let (status, answer) = get(&node.http_url(), "/readyz").await.unwrap();
        assert_eq!(status, 503, "{answer}");
        let answer = answer.to_string();
        answer.contains("cannot join").then_some(answer)
    });
    assert!(answer.await.contains("WRONGTYPE"));
    let mend = redis::cmd("DEL").arg("parlor:nodes").to_owned();
    mend.exec_async(&mut connection).await.unwrap();
    becomes(&node, 200).await;
}

#[tokio::test]
async fn a_wrong_password_fails_the_start() {
    let redis = Redis::options().password("right").start().await;
    let url = format!("redis://:wrong@127.0.0.1:{}", redis.port());
    let http = ("PARLOR_SERVER__HTTP", "127.0.0.1:0");
    let said = refused(&[http, ("PARLOR_STORE__URL", &url)]).await;
    assert!(
        said.contains("password") && !said.contains("wrong@"),
        "{said}"
    );
}

#[tokio::test]
async fn a_port_in_use_fails_the_start_with_a_hint() {
    let node = ServerProcess::parlor_serve(PARLOR).start().await;
    let address = node.http_url().replace("http://", "");
    let said = refused(&[("PARLOR_SERVER__HTTP", &address)]).await;
    assert!(
        said.contains(&format!("{address} is in use")) && said.contains("--http"),
        "{said}"
    );
}

#[tokio::test]
async fn two_servers_cannot_share_a_data_folder() {
    let node = ServerProcess::parlor_serve(PARLOR).start().await;
    becomes(&node, 200).await;
    let data = node.data_folder().display().to_string();
    let said = refused(&[
        ("PARLOR_SERVER__HTTP", "127.0.0.1:0"),
        ("PARLOR_SERVER__DATA", &data),
    ])
    .await;
    assert!(said.contains("is in use by another process"), "{said}");
    assert_eq!(get(&node.http_url(), "/readyz").await.unwrap().0, 200);
}

#[tokio::test]
async fn damaged_data_fails_the_start_with_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(
        data.join("store.db"),
        "this is not a database, and long enough to be looked at".repeat(100),
    )
    .unwrap();
    let said = refused(&[
        ("PARLOR_SERVER__HTTP", "127.0.0.1:0"),
        ("PARLOR_SERVER__DATA", data.to_str().unwrap()),
    ])
    .await;
    assert!(
        said.contains("store.db") && said.contains("backup"),
        "{said}"
    );
}

#[tokio::test]
async fn sigterm_stops_the_server_while_it_opens_the_store() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", mute.local_addr().unwrap());
    let mut node = ServerProcess::parlor_serve(PARLOR)
        .env("PARLOR_STORE__URL", url)
        .env("PARLOR_STORE__TIMEOUT", "1h")
        .spawn();
    let _connection = mute.accept().await.unwrap();
    assert_eq!(
        node.terminate_and_wait().await.code(),
        Some(0),
        "{}",
        node.output()
    );
}

#[tokio::test]
async fn a_second_signal_stops_the_process_at_once() {
    let mut node = ServerProcess::parlor_serve(PARLOR).start().await;
    // An unfinished request keeps the graceful shutdown waiting.
    let mut stream = TcpStream::connect(node.http_url().replace("http://", ""))
        .await
        .unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        .await
        .unwrap();
    assert_eq!(get(&node.http_url(), "/healthz").await.unwrap().0, 200);
    node.send_sigterm();
    node.wait_for_line("\"stopping\"").await;
    node.send_sigterm();
    assert_eq!(
        node.wait_for_exit().await.code(),
        Some(1),
        "{}",
        node.output()
    );
    assert!(!node.output().contains("\"stopped\""), "{}", node.output());
}

/// Waits until `/readyz` returns this status, and returns the body.
async fn becomes(node: &ServerProcess, status: u16) -> serde_json::Value {
    eventually(&format!("/readyz returns {status}"), async || {
        match get(&node.http_url(), "/readyz").await {
            Ok((found, body)) if found == status => Ok(Some(body)),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// Runs `serve` and expects exit code 1 and one line on stderr that is no panic. Returns that line.
async fn refused(variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let ran = run_in(
        folder.path(),
        &["serve", "--set", "log.level=off", "--grpc", ""],
        variables,
    )
    .await;
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (1, ""), "{ran:?}");
    assert!(
        ran.stderr.starts_with("error: ") && ran.stderr.trim_end().lines().count() == 1,
        "{ran:?}"
    );
    ran.stderr
}
