//! Runs the commands of the README and of the guides as a reader does, and compares their output with the text.
//!
//! A command begins with `$ ` in a code block. The lines after it are its output: `…` stands for any text, and numbers
//! of four and more digits, ids and addresses may differ.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use parlor_testkit::{Postgres, Redis, ServerProcess, eventually};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::{PARLOR, client_kit_folder, get};

/// The pages, in the order in which the README names them. The last one stops the server.
const PAGES: [&str; 8] = [
    "README.md",
    "examples/README.md",
    "docs/guide/connecting.md",
    "docs/guide/tokens.md",
    "docs/guide/presence.md",
    "docs/guide/messages.md",
    "docs/guide/sessions.md",
    "docs/guide/limits.md",
];
const MOVING: &str = "docs/guide/moving.md";

/// Line that the shell prints after each command, with the exit code.
const END_OF_COMMAND: &str = "-- end of command: ";

/// Programs of the commands that do not run here as they are: the server is already running, the client is built.
const PROGRAMS: [(&str, &str); 4] = [
    ("make", "case $1 in run | web) ;; *) exit 2 ;; esac"),
    (
        "systemctl",
        r#"[ "$1 $2" = "stop parlor" ] || exit 2
        kill -s TERM "$PARLOR_PID"
        while [ -e "/proc/$PARLOR_PID" ] && ! grep -q '^State:.Z' "/proc/$PARLOR_PID/status"; do sleep 0.05; done"#,
    ),
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
];

/// A command of a page with its documented output.
struct Step {
    place: String,
    command: String,
    expected: Vec<String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands in the code blocks of a page.
fn steps(page: &str) -> Vec<Step> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let (mut in_block, mut in_output) = (false, false);
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            (in_block, in_output) = (!in_block, false);
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            in_output = !command.ends_with('\\');
            steps.push(Step {
                place: format!("{page}:{}", number + 1),
                command: command.to_owned(),
                expected: Vec::new(),
            });
        } else if let Some(step) = steps.last_mut().filter(|_| in_block) {
            if in_output {
                step.expected.push(line.to_owned());
            } else if step.command.ends_with('\\') {
                step.command += &format!("\n{line}");
                in_output = !line.ends_with('\\');
            }
        }
    }
    steps
}

/// Text without what differs from run to run: long numbers, ids, addresses, and the width of columns.
fn masked(text: &str) -> String {
    let mut result = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        let word = match word.trim_end() {
            "" => continue,
            address if address.contains("://") || address.starts_with("sqlite:") => "ADDRESS",
            word => word,
        };
        let mut digits = String::new();
        for c in word.chars().chain([' ']) {
            if c.is_ascii_hexdigit() && (c.is_ascii_digit() || !digits.is_empty()) {
                digits.push(c);
                continue;
            }
            result += match digits.len() {
                4.. => "#",
                _ => &digits,
            };
            digits.clear();
            result.push(c);
        }
    }
    result
}

/// True for a row of a table of numbers, which depends on the data.
fn is_row_of_numbers(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1).peekable();
    words.peek().is_some() && words.all(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A reader with a terminal, in a folder that looks like the repository.
struct Reader {
    node: ServerProcess,
    redis: Redis,
    database: String,
    _postgres: Postgres,
    shell: Child,
    input: ChildStdin,
    output: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Reader {
    async fn start() -> Self {
        client_kit_folder();
        let node = ServerProcess::parlor_serve(PARLOR).start().await;
        let (redis, postgres) = (Redis::start().await, Postgres::start().await);
        let database = postgres.create_database().await;
        let folder = node.folder();
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
        let path = [programs.as_os_str(), &path].join(std::ffi::OsStr::new(":"));
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
        let mut shell = Command::new("bash")
            .current_dir(folder)
            .env("PATH", path)
            .env("PARLOR", PARLOR)
            .env("CURL_HOME", folder)
            .env("PARLOR_PID", node.pid().to_string())
            .env("GRPCURL", tests.join("documentation/grpcurl.py"))
            .env("PYTHONPATH", repository().join(".tools/python"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        eventually("the node is ready", async || {
            get(&node.http_url(), "/readyz").await.map(|it| it.0 == 200)
        })
        .await;
        Self {
            node,
            redis,
            database,
            _postgres: postgres,
            input: shell.stdin.take().unwrap(),
            output: BufReader::new(shell.stdout.take().unwrap()).lines(),
            shell,
        }
    }

    /// Runs a command with the addresses of this test, and returns its output and exit code.
    async fn run(&mut self, command: &str) -> (String, String) {
        let data = self.node.data_folder().display().to_string();
        let command = command
            .replace("http://127.0.0.1:7070", &self.node.http_url())
            .replace("127.0.0.1:7071", &self.node.grpc_address().to_string())
            .replace("redis://127.0.0.1:6379/0", &self.redis.url())
            .replace("postgres://127.0.0.1/chat", &self.database)
            .replace("redis://:secret@cache:6379/0", &self.redis.url())
            .replace("postgres://parlor:secret@db/parlor", &self.database)
            .replace("/var/lib/parlor", &data);
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

    /// Runs all commands of a page and compares their output.
    async fn follow(&mut self, page: &str) {
        for step in steps(page) {
            let (output, code) = self.run(&step.command).await;
            let context = format!("{}: {}\n{output}", step.place, step.command);
            assert_eq!(code, "0", "{context}");
            assert!(!output.contains("\"type\":\"about:blank\""), "{context}");
            let found = masked(&output);
            for line in step.expected.iter().filter(|line| !is_row_of_numbers(line)) {
                let mut rest = &found[..];
                for part in line.split('…') {
                    let part = masked(part);
                    let part = part.trim();
                    let Some(start) = rest.find(part) else {
                        panic!("the output has no {part:?}: {context}");
                    };
                    rest = &rest[start + part.len()..];
                }
            }
        }
    }

    async fn finish(mut self) {
        drop(self.input);
        assert!(self.shell.wait().await.unwrap().success());
    }
}

#[tokio::test]
async fn each_guide_works_from_a_fresh_start() {
    for page in PAGES.into_iter().chain([MOVING]) {
        let mut reader = Reader::start().await;
        assert!(!steps(page).is_empty(), "{page}");
        reader.follow(page).await;
        reader.finish().await;
    }
}

#[tokio::test]
async fn all_guides_work_in_one_run() {
    let mut reader = Reader::start().await;
    for page in PAGES.into_iter().chain([MOVING]) {
        reader.follow(page).await;
    }
    reader.finish().await;
}

#[test]
fn every_guide_is_followed() {
    let guides = std::fs::read_dir(repository().join("docs/guide")).unwrap();
    for guide in guides {
        let page = format!(
            "docs/guide/{}",
            guide.unwrap().file_name().to_string_lossy()
        );
        assert!(PAGES.contains(&page.as_str()) || page == MOVING, "{page}");
    }
}
