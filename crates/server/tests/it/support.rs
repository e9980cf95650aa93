//! Runs the binary and sends HTTP requests to it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use parlor_store::{Store, StoreOptions};
use parlor_testkit::{HttpConnection, HttpResponse};
use tokio::process::Command;

/// Path of the binary.
pub const PARLOR: &str = env!("CARGO_BIN_EXE_parlor");

/// Folder of the TypeScript client, which must be built.
pub fn client_kit_folder() -> PathBuf {
    let kit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/client");
    assert!(
        kit.join("dist/index.js").is_file(),
        "the TypeScript client is not built; run `make web`"
    );
    kit
}

/// Result of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub exit_code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    /// Standard output of a command; fails unless the command succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.exit_code, 0, "{self:?}");
        self.stdout
    }

    /// Standard output as JSON; fails unless the command succeeded.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The binary with an empty environment in a working folder.
pub fn command(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PARLOR);
    command
        .args(args)
        .current_dir(folder)
        .env_clear()
        .envs(variables.iter().copied());
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a command until it exits.
pub async fn run_in(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
    let output = command(folder, args, variables).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput {
        exit_code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs the binary in an empty folder until it exits.
pub async fn run(args: &[&str]) -> CommandOutput {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), args, &[]).await
}

/// Sends a `GET` request and returns status and body.
pub async fn get(http: &str, path: &str) -> std::io::Result<(u16, serde_json::Value)> {
    let response = ask(http, "GET", path).await?;
    Ok((response.status, response.json()))
}

/// Sends a request on a new connection.
pub async fn ask(http: &str, method: &str, path: &str) -> std::io::Result<HttpResponse> {
    let address = http.trim_start_matches("http://").parse();
    let mut connection = HttpConnection::open(address.map_err(std::io::Error::other)?).await?;
    connection.request(method, path, &[], b"").await
}

/// Opens the embedded store in a folder.
pub async fn embedded(folder: &Path) -> Store {
    Store::open(StoreOptions {
        data_folder: Some(folder.to_owned()),
        ..StoreOptions::default()
    })
    .await
    .unwrap()
}

/// Inserts one key of each type with names of the default preset, and one undeclared key.
pub async fn insert_sample_keys(connection: &mut impl redis::aio::ConnectionLike) {
    let mut pipe = redis::pipe();
    pipe.hset("presence:user:alice", "d1", r#"{"serverId":"n1"}"#)
        .pexpire("presence:user:alice", 60_000);
    pipe.set_ex("typing:c1:alice", r#"{"userId":"alice"}"#, 3_000);
    pipe.sadd("conversation:c1:participants", "alice")
        .expire("conversation:c1:participants", 3_600);
    pipe.lpush("messages:c1:recent", &["m1", "m2"])
        .expire("messages:c1:recent", 3_600);
    pipe.set("unread:alice:c1", 2).set("unread:bob:c1", 1);
    pipe.zadd("chat:conversations:active", "c1", 17_000)
        .expire("chat:conversations:active", 3_600);
    pipe.set("somebody:else", "x");
    pipe.query_async::<()>(connection).await.unwrap();
}
