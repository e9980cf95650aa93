//! Random requests that schemathesis generates from the OpenAPI document: none causes an internal error, and every
//! response matches the document.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::client::{node, ready};
use crate::tokens::{admin, service};

/// Random requests per route, besides those from the examples and limits of the document.
const EXAMPLES: &str = "10";
/// Fixed seed: every run sends the same requests.
const SEED: &str = "20260";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";

#[tokio::test]
async fn an_admin_gets_answers_that_the_document_describes() {
    try_all(&admin("root"), "examples,coverage,fuzzing", None).await;
}

#[tokio::test]
async fn a_service_gets_answers_that_the_document_describes() {
    // The phase `coverage` does not depend on the caller and takes the longest, so only the admin runs it.
    try_all(&service(), "examples,fuzzing", Some("alice")).await;
}

async fn try_all(token: &str, phases: &str, acting_for: Option<&str>) {
    let node = ready(node().env("PARLOR_LIMITS__HTTP", "10000")).await;
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/schemathesis");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command
        .args(["-m", "schemathesis.cli", "run"])
        .arg(format!("{}/openapi.json", node.http_url()))
        .args(["--phases", phases])
        // A logout would make all later requests fail with 401.
        .args(["--exclude-operation-id", "sessionsEnd"])
        .args(["--max-examples", EXAMPLES, "--seed", SEED])
        .args(["--generation-database", "none", "--checks", CHECKS])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .args(["--no-color", "--continue-on-failure"])
        .args(["--header", &format!("Authorization: Bearer {token}")]);
    if let Some(user) = acting_for {
        command.args(["--header", &format!("Parlor-User: {user}")]);
    }
    let ran = command
        .current_dir(folder.path())
        .env("PYTHONPATH", tools)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap_or_else(|error| {
            panic!("cannot run python3; install it and run `make tools`: {error}")
        });
    let stdout = String::from_utf8_lossy(&ran.stdout);
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success(),
        "{}\n{stdout}{stderr}\n{}",
        ran.status,
        node.output()
    );
}
