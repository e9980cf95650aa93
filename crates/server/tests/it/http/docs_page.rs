//! Tests of the page `/docs/` in a real browser.

use std::process::Stdio;

use parlor_testkit::ServerProcess;
use tokio::process::Command;

use super::client::{call, embedded};

/// DOM of the page after the browser has loaded it without access to other hosts.
async fn opened(node: &ServerProcess, path: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg("--virtual-time-budget=20000")
        .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("{}{path}", node.http_url()))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("chromium is not installed: apt-get install chromium");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_page_shows_the_operations_without_anything_from_outside() {
    let node = embedded().await;
    let page = opened(&node, "/docs").await;
    assert!(page.contains("<title>Parlor</title>"), "{page}");
    for part in [
        "operations-presence-presenceSet",
        "operations-typing-typingSet",
        "Sets the status of a user",
        "Authorize",
    ] {
        assert!(page.contains(part), "no {part} in {page}");
    }
}

#[tokio::test]
async fn the_docs_page_loads_nothing_from_other_hosts() {
    let node = embedded().await;
    let to = call("GET", "/docs").at(&node).await;
    assert_eq!((to.status, to.header("location")), (308, Some("docs/")));
    for file in [
        "",
        "style.css",
        "start.js",
        "icon.svg",
        "swagger-ui.css",
        "swagger-ui-bundle.js",
    ] {
        let answer = call("GET", &format!("/docs/{file}")).at(&node).await;
        assert_eq!(answer.status, 200, "{file}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        assert!(!policy.contains("http"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let page = call("GET", "/docs/").at(&node).await.text;
    assert!(!page.contains("//"), "{page}");
}
