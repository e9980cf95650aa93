//! Reader of the guides: a terminal in a folder that looks like the repository.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use parlor_testkit::{Postgres, Redis, ServerProcess, eventually};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::steps::{repository, steps};
use crate::support::{PARLOR, client_kit_folder, get};

/// Line that the shell prints after each command, with the exit code.
const END_OF_COMMAND: &str = "-- end of command: ";

/// Programs of the commands that do not run here as they are: the server is already running, the client is built.
const PROGRAMS: [(&str, &str); 4] = [
    ("make", "case $1 in run | web) ;; *) exit 2 ;; esac"),
    (
        "parlor",
        r#"case "$*" in *--print-config*) ;; serve*)
            shift
            "$PARLOR" serve --http 127.0.0.1:0 --grpc "" "$@" >served 2>&1 &
            until grep -q Try: served; do kill -0 $! || { cat served; exit 1; }; sleep 0.05; done
            kill -s TERM $!
            wait $!
            exit ;;
        esac
        exec "$PARLOR" "$@""#,
    ),
    ("grpcurl", r#"exec python3 "$GRPCURL" "$@""#),
    // As on a terminal: numbered lines and quoted texts.
    (
        "redis-cli",
        r#"PATH=${PATH#*:} exec redis-cli -p "$REDIS_PORT" --no-raw "$@""#,
    ),
];

pub struct Reader {
    /// Server that runs when the reader begins.
    node: ServerProcess,
    /// Server that the reader has started with `systemctl start parlor`.
    service: Option<ServerProcess>,
    /// Redis that other services already use.
    pub redis: Redis,
    /// Redis and database to move to.
    target_redis: Redis,
    target_database: String,
    _postgres: Postgres,
    shell: Child,
    input: ChildStdin,
    output: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Reader {
    pub async fn start() -> Self {
        client_kit_folder();
        let node = ServerProcess::parlor_serve(PARLOR).start().await;
        let (redis, target_redis) = tokio::join!(Redis::start(), Redis::start());
        let postgres = Postgres::start().await;
        let target_database = postgres.create_database().await;
        let folder = node.folder();
        let path = write_programs(folder);
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
        let mut shell = Command::new("bash")
            .current_dir(folder)
            .env("PATH", path)
            .env("PARLOR", PARLOR)
            .env("CURL_HOME", folder)
            .env("REDIS_PORT", redis.port().to_string())
            .env("GRPCURL", tests.join("documentation/grpcurl.py"))
            .env("PYTHONPATH", repository().join(".tools/python"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        is_ready(&node).await;
        Self {
            node,
            service: None,
            redis,
            target_redis,
            target_database,
            _postgres: postgres,
            input: shell.stdin.take().unwrap(),
            output: BufReader::new(shell.stdout.take().unwrap()).lines(),
            shell,
        }
    }

    /// Runs a command with the addresses of this test, and returns its output and exit code.
    async fn run(&mut self, command: &str) -> (String, String) {
        let node = self.service.as_ref().unwrap_or(&self.node);
        let command = command
            .replace("http://127.0.0.1:7070", &node.http_url())
            .replace("127.0.0.1:7071", &node.grpc_address().to_string())
            .replace(
                "redis://127.0.0.1:6379",
                &format!("redis://127.0.0.1:{}", self.redis.port()),
            )
            .replace("postgres://127.0.0.1/chat", &self.target_database)
            .replace("redis://:secret@cache:6379/0", &self.target_redis.url())
            .replace("postgres://parlor:secret@db/parlor", &self.target_database)
            .replace(
                "/var/lib/parlor",
                &self.node.data_folder().display().to_string(),
            );
        let script =
            format!("{{ {command}\n}} </dev/null 2>&1\nprintf '\\n{END_OF_COMMAND}%s\\n' $?\n");
        self.input.write_all(script.as_bytes()).await.unwrap();
        let mut output = String::new();
        loop {
            let line = self.output.next_line().await.unwrap();
            let line = line.unwrap_or_else(|| panic!("the shell ended: {command}\n{output}"));
            match line.strip_prefix(END_OF_COMMAND) {
                Some(code) => return (output, code.to_owned()),
                None => output += &format!("{line}\n"),
            }
        }
    }

    /// Runs all commands of a page in the folder of the reader and compares their output.
    pub async fn follow(&mut self, page: &str) {
        for step in steps(page) {
            match step.command.as_str() {
                "systemctl start parlor" => self.start_service().await,
                "systemctl stop parlor" => self.stop_service().await,
                command => {
                    let (output, code) = self.run(command).await;
                    step.check(&output, &code);
                }
            }
        }
        self.run("cd \"$CURL_HOME\"").await;
    }

    /// Starts a server with the configuration in the working folder, whose data folder is `data`.
    async fn start_service(&mut self) {
        assert!(self.service.is_none(), "the service is already running");
        let (folder, _) = self.run("pwd").await;
        let folder = PathBuf::from(folder.trim());
        let service = ServerProcess::parlor_serve(PARLOR)
            .arg("--config")
            .arg(folder.join("parlor.toml"))
            .env("PARLOR_SERVER__DATA", folder.join("data"))
            .env("PARLOR_STORE__TIMEOUT", "10s");
        let service = service.start().await;
        is_ready(&service).await;
        self.service = Some(service);
    }

    async fn stop_service(&mut self) {
        let mut service = self.service.take();
        let stopped = service.as_mut().unwrap_or(&mut self.node);
        assert!(stopped.terminate_and_wait().await.success());
    }

    pub async fn finish(mut self) {
        assert!(self.service.is_none(), "the page does not stop the service");
        drop(self.input);
        assert!(self.shell.wait().await.unwrap().success());
    }
}

async fn is_ready(node: &ServerProcess) {
    eventually("the node is ready", async || {
        get(&node.http_url(), "/readyz").await.map(|it| it.0 == 200)
    })
    .await;
}

/// Writes the programs of the commands, and returns the search path that finds them first.
fn write_programs(folder: &Path) -> std::ffi::OsString {
    let (programs, release) = (folder.join("bin"), folder.join("target/release"));
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::create_dir_all(&release).unwrap();
    for (name, script) in PROGRAMS {
        let path = programs.join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    symlink(programs.join("parlor"), release.join("parlor")).unwrap();
    std::fs::write(folder.join(".curlrc"), "silent\nshow-error\n").unwrap();
    for name in ["examples", "web"] {
        symlink(repository().join(name), folder.join(name)).unwrap();
    }
    let path = std::env::var_os("PATH").unwrap();
    [programs.as_os_str(), &path].join(std::ffi::OsStr::new(":"))
}
