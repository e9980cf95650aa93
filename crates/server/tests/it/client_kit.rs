//! The TypeScript client with a real server: runs its tests in Node.

use std::process::Stdio;

use tokio::process::Command;

use crate::support::{PARLOR, client_kit_folder};

#[tokio::test]
async fn the_client_kit_passes_its_tests() {
    let ran = Command::new("node")
        .args(["--test", "--test-reporter=tap", "test/server/kit.test.mjs"])
        .current_dir(client_kit_folder())
        .env("PARLOR", PARLOR)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("node is not installed");
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
}
