//! Tests of the signals of `parlor serve`.

use std::path::Path;
use std::process::Stdio;

use parlor_testkit::{ServerProcess, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::support::{PARLOR, get};

/// Starts a server without a controlling terminal, also if the tests have one.
async fn without_terminal(config: &Path) -> ServerProcess {
    let setsid = ServerProcess::options("/usr/bin/setsid").arg(PARLOR);
    let serve = setsid.arg("serve").arg("--config").arg(config);
    let serve = serve.listen("PARLOR_SERVER__HTTP");
    serve.listen("PARLOR_SERVER__GRPC").start().await
}

async fn send_signal(node: &ServerProcess, signal: &str) {
    let mut kill = Command::new("kill");
    kill.args(["-s", signal]).arg(node.pid().to_string());
    assert!(kill.status().await.unwrap().success());
}

/// Sends bytes that are not HTTP, which the server logs at the level `debug`.
async fn send_garbage(node: &ServerProcess) {
    let mut stream = TcpStream::connect(node.http_address()).await.unwrap();
    stream.write_all(b"\0\0\r\n\r\n").await.unwrap();
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

fn logged_connections(node: &ServerProcess) -> usize {
    node.output().matches("connection failed").count()
}

#[tokio::test]
async fn sighup_without_a_terminal_reloads_the_log_level() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("parlor.toml");
    std::fs::write(&config, "[log]\nlevel = \"info\"\n").unwrap();
    let mut node = without_terminal(&config).await;
    send_garbage(&node).await;

    let changed = "[log]\nlevel = \"debug\"\n[limits]\nhttp = 700\n[auth]\nsecret = \"hunter2\"\n";
    std::fs::write(&config, changed).unwrap();
    send_signal(&node, "HUP").await;
    let line = node.wait_for_line("reloaded the configuration").await;
    assert!(line.contains("\"level\":\"debug\""), "{line}");
    let line = node.wait_for_line("restart the server to apply").await;
    let names = "\"settings\":\"auth.secret, limits.http\"";
    assert!(line.contains(names), "{line}");
    assert_eq!(logged_connections(&node), 0, "{}", node.output());
    send_garbage(&node).await;
    node.wait_for_line("connection failed").await;

    // An invalid file changes nothing.
    std::fs::write(&config, "[log]\nlevel = \"warning\"\n").unwrap();
    send_signal(&node, "HUP").await;
    let line = node.wait_for_line("was not reloaded").await;
    assert!(line.contains("did you mean `warn`?"), "{line}");
    send_garbage(&node).await;
    eventually("the level is still debug", async || {
        logged_connections(&node) == 2
    })
    .await;

    send_signal(&node, "USR1").await;
    assert_eq!(get(&node.http_url(), "/healthz").await.unwrap().0, 200);
    let exit = node.terminate_and_wait().await;
    assert_eq!(exit.code(), Some(0), "{}", node.output());
    assert!(!node.output().contains("hunter2"), "{}", node.output());
}

/// Runs a program on a terminal of its own, and sends it SIGHUP when it has started.
const ON_A_TERMINAL: &str = r#"
import os, pty, signal, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
output, sent = b"", False
while True:
    try:
        output += os.read(terminal, 4096)
    except OSError:  # the program has ended
        break
    if b"Try:" in output and not sent:
        os.kill(pid, signal.SIGHUP)
        sent = True
sys.stdout.buffer.write(output)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[tokio::test]
async fn sighup_on_a_terminal_stops_the_server_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("python3")
        .args(["-c", ON_A_TERMINAL, PARLOR, "serve"])
        .args(["--http", "127.0.0.1:0", "--grpc", ""])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("stopped"), "{printed}");
}
