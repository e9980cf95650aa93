//! Tests of `ServerProcess`, with small programs in place of Parlor.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use parlor_testkit::{Redis, ServerProcess, ServerProcessOptions, is_running};

/// Shell script in place of the program.
struct Program {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn program(script: &str) -> Program {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parlor");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Program {
        path,
        _folder: folder,
    }
}

/// A Redis server in place of Parlor; it listens on the HTTP address.
fn listening_program() -> Program {
    program(
        r#"echo "run in $PWD with $1"
exec redis-server --bind 127.0.0.1 --port "${PARLOR_SERVER__HTTP##*:}" --save ''"#,
    )
}

/// Same as `ServerProcess::parlor_serve` without gRPC, because the Redis server has one port.
fn serve(program: &Program) -> ServerProcessOptions {
    let options = ServerProcess::options(&program.path).arg("serve");
    options.listen("PARLOR_SERVER__HTTP")
}

#[tokio::test]
async fn a_server_process_listens_on_its_address_stops_on_sigterm_and_restarts() {
    let program = listening_program();
    let mut node = serve(&program).start().await;
    let (pid, http) = (node.pid(), node.http_url());
    assert!(node.wait_for_line("run in").await.ends_with("with serve"));
    assert!(std::net::TcpStream::connect(http.trim_start_matches("http://")).is_ok());
    assert!(node.terminate_and_wait().await.success());
    assert!(!is_running(pid));

    node.restart().await;
    assert_eq!(node.http_url(), http);
    let pid = node.pid();
    node.kill9();
    assert!(!is_running(pid));

    node.restart().await;
    let (pid, folder) = (node.pid(), node.folder().to_owned());
    drop(node);
    assert!(!is_running(pid));
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_node_sees_its_own_variables_only() {
    let program = program("env; exit 3");
    let mut node = ServerProcess::options(&program.path)
        .env("PARLOR_STORE__URL", "embedded:")
        .spawn();
    assert_eq!(node.wait_for_exit().await.code(), Some(3));
    let output = node.output();
    assert!(output.contains("PARLOR_STORE__URL=embedded:"), "{output}");
    assert!(
        output.contains(&format!(
            "PARLOR_SERVER__DATA={}",
            node.data_folder().display()
        )),
        "{output}"
    );
    assert!(!output.contains("CARGO_"), "{output}");
}

#[tokio::test]
async fn a_taken_port_leads_to_another_try() {
    let taken = Redis::start().await;
    // The first start uses a port that is taken, the second its own.
    let program = program(&format!(
        r#"if [ ! -e tried ]; then
    touch tried
    exec redis-server --bind 127.0.0.1 --port {} --save ''
fi
exec redis-server --bind 127.0.0.1 --port "${{PARLOR_SERVER__HTTP##*:}}" --save ''"#,
        taken.port()
    ));
    let node = serve(&program).start().await;
    assert!(node.folder().join("tried").exists());
    assert!(is_running(taken.pid()) && is_running(node.pid()));
}

#[tokio::test]
async fn a_port_conflict_reported_by_the_node_is_retried() {
    let program = program(
        r#"if [ ! -e tried ]; then
    touch tried
    echo "127.0.0.1:1 is in use by another process; end it or choose another address"
    exit 1
fi
exec redis-server --bind 127.0.0.1 --port "${PARLOR_SERVER__HTTP##*:}" --save ''"#,
    );
    let node = serve(&program).start().await;
    assert!(node.folder().join("tried").exists());
    assert!(is_running(node.pid()));
}

#[tokio::test]
#[should_panic(expected = "parlor did not start (exit status: 2); its log:\nwrong setting")]
async fn a_node_that_fails_to_start_tells_its_output() {
    let program = program("echo wrong setting; exit 2");
    serve(&program).start().await;
}
