//! Tests that run the programs in `examples/` as their readers do.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use parlor_testkit::{ServerProcess, eventually};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::http::client::{call, node, ready};
use crate::support::client_kit_folder;
use crate::tokens::user;

/// Timeout of a step of an example program.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A node with a conversation of Alice and Bob, in which Bob has written.
async fn with_a_message() -> ServerProcess {
    let node = ready(node().env("PARLOR_SERVER__ALLOWED_ORIGINS", "*")).await;
    let lunch = json!({ "id": "lunch", "kind": "group", "open": true, "members": ["alice"] });
    let made = call("POST", "/v1/conversations").by(&user("bob"));
    made.json(lunch).at(&node).await.created();
    send_as_bob(&node, "Noodles?").await;
    node
}

async fn send_as_bob(node: &ServerProcess, content: &str) {
    let send = call("POST", "/v1/conversations/lunch/messages").by(&user("bob"));
    let message = json!({ "content": content });
    send.json(message).at(node).await.created();
}

/// Sender and text of the last message.
async fn last_message(node: &ServerProcess) -> (String, String) {
    let list = call("GET", "/v1/conversations/lunch/messages?limit=1").by(&user("bob"));
    let page = list.at(node).await.ok();
    let text = |field: &str| page["messages"][0][field].as_str().unwrap().to_owned();
    (text("senderId"), text("content"))
}

/// Alice chats with Bob through a program that reads and prints lines.
async fn check_terminal_chat(mut program: Command) {
    let node = with_a_message().await;
    program.args([&node.http_url(), &user("alice"), "lunch"]);
    program.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = program.kill_on_drop(true).spawn().unwrap();
    let mut input = running.stdin.take().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut printed = async |expected: &str| {
        loop {
            let line = timeout(TEST_TIMEOUT, output.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("the program did not print {expected:?}"));
            match line.unwrap() {
                Some(line) if line == expected => break,
                Some(_) => {}
                None => panic!("the program ended before it printed {expected:?}"),
            }
        }
    };
    printed("bob: Noodles?").await;
    printed("* in lunch, 1 unread").await;
    send_as_bob(&node, "Or pizza?").await;
    printed("bob: Or pizza?").await;
    eventually("alice has read the message", async || {
        let unread = call("GET", "/v1/unread").by(&user("alice")).at(&node).await;
        unread.ok()["total"] == 0
    })
    .await;
    input.write_all(b"Pizza!\n").await.unwrap();
    printed("alice: Pizza!").await;
    assert_eq!(last_message(&node).await, ("alice".into(), "Pizza!".into()));
    drop(input);
    assert!(running.wait().await.unwrap().success());
}

/// Creates a closed conversation of Bob.
async fn create_board(node: &ServerProcess) {
    let board = json!({ "id": "board", "kind": "group" });
    let create = call("POST", "/v1/conversations").by(&user("bob"));
    create.json(board).at(node).await.created();
}

/// Carol is not allowed to join: the program prints one sentence and fails.
async fn check_rejected_entry(mut program: Command) {
    let node = ready(node()).await;
    create_board(&node).await;
    program.args([&node.http_url(), &user("carol"), "board"]);
    program.stdin(Stdio::null()).kill_on_drop(true);
    let ran = timeout(TEST_TIMEOUT, program.output()).await.unwrap();
    let ran = ran.unwrap();
    let printed = [ran.stdout, ran.stderr].concat();
    let printed = String::from_utf8(printed).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{printed}");
    let mut lines = printed
        .lines()
        .filter(|line| *line != "* connected" && *line != "* disconnected");
    let line = lines.next().unwrap();
    assert!(line.starts_with("* cannot enter board: "), "{printed}");
    assert!(line.ends_with("(forbidden)"), "{printed}");
    assert_eq!(lines.next(), None, "{printed}");
}

fn node_example() -> Command {
    client_kit_folder();
    let mut node = Command::new("node");
    node.arg(root().join("examples/node/chat.mjs"));
    node
}

fn python_example() -> Command {
    let mut python = Command::new("python3");
    python
        .arg(root().join("examples/python/chat.py"))
        .env("PYTHONPATH", root().join(".tools/python-socketio"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

#[tokio::test]
async fn the_node_example_chats() {
    check_terminal_chat(node_example()).await;
}

#[tokio::test]
async fn the_python_example_chats() {
    check_terminal_chat(python_example()).await;
}

#[tokio::test]
async fn the_node_example_prints_why_it_cannot_enter() {
    check_rejected_entry(node_example()).await;
}

#[tokio::test]
async fn the_python_example_prints_why_it_cannot_enter() {
    check_rejected_entry(python_example()).await;
}

/// Opens the browser example as a user, and waits for a text on the page. Then sends the answer, if there is one.
async fn open_browser_example(node: &ServerProcess, who: &str, conversation: &str, texts: &[&str]) {
    client_kit_folder();
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/examples/browser.mjs");
    let ran = Command::new("node")
        .arg(driver)
        .args([&node.http_url(), &user(who), conversation])
        .args(texts)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("node is not installed");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{stderr}");
}

#[tokio::test]
async fn the_browser_example_chats() {
    let node = with_a_message().await;
    open_browser_example(&node, "alice", "lunch", &["Noodles?", "Pizza!"]).await;
    assert_eq!(last_message(&node).await, ("alice".into(), "Pizza!".into()));
}

#[tokio::test]
async fn the_browser_example_shows_why_it_cannot_enter() {
    let node = ready(node().env("PARLOR_SERVER__ALLOWED_ORIGINS", "*")).await;
    create_board(&node).await;
    open_browser_example(&node, "carol", "board", &["cannot enter board: "]).await;
}
