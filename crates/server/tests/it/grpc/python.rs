//! A Python client that only knows the address and reads the services by reflection.

use std::path::Path;
use std::process::Stdio;

use parlor_server::grpc::{METHOD_OPERATIONS, PARLOR_SERVICES};
use serde_json::json;
use tokio::process::Command;

use super::client::{node, ready, service_token, token};
use crate::http::client::call;

#[tokio::test]
async fn the_python_grpc_client_calls_every_method() {
    let node = ready(node()).await;
    let create = call("POST", "/v1/conversations").by(&token("alice", 600.0));
    let create = create.json(json!({ "id": "lunch", "kind": "group", "members": ["bob"] }));
    create.at(&node).await.created();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let input = json!({
        "address": node.grpc_address().to_string(),
        "services": PARLOR_SERVICES,
        "methods": METHOD_OPERATIONS.iter().map(|(method, _)| method).collect::<Vec<_>>(),
        "tokens": {
            "alice": token("alice", 600.0),
            "bob": token("bob", 600.0),
            "carol": token("carol", 600.0),
            "slow": token("slow", 600.0),
            "service": service_token(),
        },
    });
    let ran = Command::new("python3")
        .arg(here.join("tests/it/grpc/client.py"))
        .arg(input.to_string())
        .env("PYTHONPATH", here.join("../../.tools/python"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap_or_else(|error| {
            panic!("cannot run python3; install it and run `make tools`: {error}")
        });
    assert!(
        ran.status.success(),
        "{}\n{}{}\n{}",
        ran.status,
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
        node.output()
    );
}
