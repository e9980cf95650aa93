//! Upgrade from polling to WebSocket under load, with the JavaScript client.

use super::clients::{start_echo_server, without_timeouts};
use std::path::Path;
use std::process::Stdio;
use tokio::process::Command;

const CONNECTIONS: usize = 200;
const EVENTS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn socket_io_client_loses_no_event_during_an_upgrade_under_load() {
    let server = start_echo_server(without_timeouts()).await;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("node")
        .arg(here.join("tests/it/upgrade_under_load.mjs"))
        .arg(format!("http://{}", server.address))
        .args([CONNECTIONS.to_string(), EVENTS.to_string()])
        .env("NODE_PACKAGES", here.join("../../web/package.json"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {said} (`make web` installs the JavaScript client)")
        });
    assert_eq!(result["failed"], 0, "{said}");
    // Otherwise the test has not covered upgrades between two events.
    let amid = result["amid"].as_u64().unwrap_or(0);
    assert!(
        amid > CONNECTIONS as u64 / 2,
        "{amid} connections upgraded while sending"
    );
}
