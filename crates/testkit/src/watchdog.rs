//! Ends the servers of a test process that cannot do so any more.
//!
//! Invariants:
//! 1. There is one watchdog per test process: a shell that reads from a pipe whose only lasting writer is the test
//!    process. When that process ends in any way, the pipe closes. The watchdog then ends every process that is still
//!    registered and removes the temporary folder.
//! 2. A process is registered before its program runs: a shell writes its own id to the pipe and then executes the
//!    program, which no longer holds the pipe.
//! 3. The watchdog has its own process group, so a signal to the group of the test does not reach it.

use std::{
    fs,
    io::{PipeWriter, Write, pipe},
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Shell script of the watchdog. `$1` is the temporary folder. An entry is `signal/pid`.
const WATCHDOG_SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
live=' '
while read -r change entry; do
    case $change in
        +) live="$live$entry " ;;
        -) live="${live%% "$entry" *} ${live#* "$entry" }" ;;
    esac
done
for entry in $live; do
    kill -s "${entry%/*}" "${entry#*/}"
done
for try in 1 2 3 4 5; do
    rm -rf -- "$1" && exit
    sleep 1
done
"#;

/// Shell script that starts a program. `$1` is the signal that ends the program, `$2` its log, the rest the program and
/// its arguments.
const REGISTER_AND_EXEC_SCRIPT: &str = r#"
signal=$1 log=$2
shift 2
echo "+ $signal/$$" || exit
exec "$@" </dev/null >>"$log" 2>&1
"#;

/// Signal that ends a program at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// `SIGKILL`.
    Kill,
    /// `SIGQUIT`: immediate shutdown of PostgreSQL, which frees its shared memory.
    Quit,
}

impl StopSignal {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Quit => "QUIT",
        }
    }
}

struct Watchdog {
    pipe: PipeWriter,
    folder: PathBuf,
    next_folder: AtomicUsize,
    _shell: Child,
}

fn watchdog() -> &'static Watchdog {
    static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
    WATCHDOG.get_or_init(|| {
        let folder = tempfile::Builder::new()
            .prefix("parlor-testkit-")
            .tempdir()
            .expect("a temporary folder can be created")
            .keep();
        // If the tests run as root, PostgreSQL runs as another user and must enter the folder.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let (reader, pipe) = pipe().expect("a pipe can be created");
        let shell = Command::new("sh")
            .args(["-c", WATCHDOG_SCRIPT, "parlor-testkit-watchdog"])
            .arg(&folder)
            .current_dir("/")
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh can be started");
        Watchdog {
            pipe,
            folder,
            next_folder: AtomicUsize::new(0),
            _shell: shell,
        }
    })
}

/// Creates an empty folder, which is removed with the test process at the latest.
pub(crate) fn create_temp_folder(name: &str) -> PathBuf {
    let watchdog = watchdog();
    let number = watchdog.next_folder.fetch_add(1, Ordering::Relaxed);
    let folder = watchdog.folder.join(format!("{name}-{number}"));
    fs::create_dir(&folder).unwrap();
    folder
}

/// Child process that is registered at the watchdog. Its output is appended to `log`.
pub(crate) struct WatchedChild {
    child: Child,
    stop_signal: StopSignal,
    status: Option<ExitStatus>,
}

impl WatchedChild {
    /// Starts `command`. The input and output settings of `command` are ignored.
    pub(crate) fn spawn(command: &Command, log: &Path, stop_signal: StopSignal) -> Self {
        let pipe = watchdog().pipe.try_clone().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args([
                "-c",
                REGISTER_AND_EXEC_SCRIPT,
                "parlor-testkit-start",
                stop_signal.name(),
            ])
            .arg(log)
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null())
            .stdout(pipe)
            .stderr(Stdio::null());
        if let Some(folder) = command.get_current_dir() {
            shell.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let child = shell.spawn().expect("sh can be started");
        Self {
            child,
            stop_signal,
            status: None,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Exit status, if the process has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            let status = self.child.try_wait().unwrap();
            self.unregister(status);
        }
        self.status
    }

    /// Waits for a process that is about to end.
    pub(crate) fn reap(&mut self) -> ExitStatus {
        if self.status.is_none() {
            let status = self.child.wait().ok();
            self.unregister(status);
        }
        self.status.unwrap_or_else(|| ExitStatus::from_raw(9))
    }

    /// Unregisters a process that has ended, because its id may be given to another process from now on.
    fn unregister(&mut self, status: Option<ExitStatus>) {
        if status.is_some() {
            self.status = status;
            let line = format!("- {}/{}\n", self.stop_signal.name(), self.id());
            // An error means that the watchdog has ended, so there is nothing to unregister.
            let _ = (&watchdog().pipe).write_all(line.as_bytes());
        }
    }
}
