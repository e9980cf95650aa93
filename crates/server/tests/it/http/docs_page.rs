//! Tests of the pages `/` and `/docs/`, also in a real browser.

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
async fn the_docs_page_renders_without_external_requests() {
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

#[tokio::test]
async fn the_home_page_shows_the_version_and_leads_only_to_pages_of_this_server() {
    let node = embedded().await;
    let home = call("GET", "/").at(&node).await;
    assert_eq!(home.status, 200);
    assert_eq!(
        home.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let policy = home.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(
        !policy.contains("unsafe") && !policy.contains("http"),
        "{policy}"
    );
    let version = env!("CARGO_PKG_VERSION");
    assert!(home.text.contains(&format!("<small>{version}</small>")));
    let targets: Vec<&str> = ["href=\"", "src=\""]
        .iter()
        .flat_map(|attribute| home.text.split(attribute).skip(1))
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    for expected in ["docs/", "docs/home.css", "openapi.json", "asyncapi.json"] {
        assert!(targets.contains(&expected), "{targets:?}");
    }
    for target in targets {
        let page = call("GET", &format!("/{target}")).at(&node).await;
        assert_eq!(page.status, 200, "{target}");
    }
}

#[tokio::test]
async fn the_home_page_renders_in_a_browser() {
    let node = embedded().await;
    let page = opened(&node, "/").await;
    assert!(page.contains("First requests"), "{page}");
}

#[tokio::test]
async fn the_docs_page_says_that_a_session_comes_first() {
    let node = embedded().await;
    let page = opened(&node, "/docs/").await;
    assert!(page.contains("begins your session"), "{page}");
}

#[tokio::test]
async fn the_served_asyncapi_document_is_the_one_in_the_repository() {
    let node = embedded().await;
    let served = call("GET", "/asyncapi.json").at(&node).await;
    assert_eq!(
        served.header("content-type"),
        Some("application/json; charset=utf-8")
    );
    assert_eq!(served.text, crate::generated::asyncapi::text());
}
