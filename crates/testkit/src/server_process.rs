//! One Parlor process, as users run it.
//!
//! Invariants:
//! 1. The process inherits only a few harmless environment variables, and runs in its own folder, so neither the
//!    developer's settings nor a configuration file affect it.
//! 2. `start` returns after the process itself listens on every requested port.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use rustix::process::Signal;

use crate::{
    DiskFaults, free_port, listening_port,
    watchdog::StopSignal,
    watched_process::{TempFolder, WatchedProcess},
};

/// Environment variable with the HTTP address.
const HTTP_ENV: &str = "PARLOR_SERVER__HTTP";
/// Environment variable with the gRPC address.
const GRPC_ENV: &str = "PARLOR_SERVER__GRPC";
/// Environment variable with the data folder.
const DATA_ENV: &str = "PARLOR_SERVER__DATA";
/// Environment variables that the process inherits.
const INHERITED_ENV: [&str; 8] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
];

/// Options of a server process.
#[must_use]
#[derive(Clone, Debug)]
pub struct ServerProcessOptions {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    listen: Vec<String>,
}

impl ServerProcessOptions {
    /// Adds a command line argument.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets an environment variable, for example `PARLOR_STORE__URL`.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Lets the test inject these faults of the disk.
    pub fn disk_faults(self, faults: &DiskFaults) -> Self {
        let environment = faults.environment().into_iter();
        environment.fold(self, |options, (name, value)| options.env(name, value))
    }

    /// Sets an environment variable to a free address. `start` waits until the process listens there, see
    /// [`ServerProcess::address`].
    pub fn listen(mut self, name: impl Into<String>) -> Self {
        self.listen.push(name.into());
        self
    }

    /// Starts the process and waits until it listens.
    pub async fn start(self) -> ServerProcess {
        let folder = TempFolder::new("node");
        let mut addresses = BTreeMap::new();
        let process = WatchedProcess::start(
            &self.name(),
            &folder.path().join("log"),
            StopSignal::Kill,
            || {
                addresses = self.choose_addresses();
                let command = self.command(folder.path(), &addresses);
                (command, listens_on_all(&addresses))
            },
        )
        .await;
        ServerProcess {
            process,
            folder,
            addresses,
            options: self,
        }
    }

    /// Starts the process without waiting, for a process that is expected to end, see [`ServerProcess::wait_for_exit`].
    pub fn spawn(self) -> ServerProcess {
        let folder = TempFolder::new("node");
        let addresses = self.choose_addresses();
        let command = self.command(folder.path(), &addresses);
        let process = WatchedProcess::spawn(
            &self.name(),
            &command,
            &folder.path().join("log"),
            StopSignal::Kill,
        );
        ServerProcess {
            process,
            folder,
            addresses,
            options: self,
        }
    }

    fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or(self.program.as_os_str());
        name.to_string_lossy().into_owned()
    }

    fn choose_addresses(&self) -> BTreeMap<String, SocketAddr> {
        let mut chosen = BTreeMap::<String, SocketAddr>::new();
        for name in &self.listen {
            let address = loop {
                let address = SocketAddr::from(([127, 0, 0, 1], free_port::find_free_port()));
                // The address is not in use yet, so the same one may be chosen again.
                if !chosen.values().any(|it| *it == address) {
                    break address;
                }
            };
            chosen.insert(name.clone(), address);
        }
        chosen
    }

    fn command(&self, folder: &Path, addresses: &BTreeMap<String, SocketAddr>) -> Command {
        assert!(
            self.program.is_file(),
            "{} does not exist; build it first",
            self.program.display()
        );
        let mut command = Command::new(&self.program);
        for (name, _) in env::vars_os() {
            if !INHERITED_ENV.iter().any(|it| name == *it) {
                command.env_remove(name);
            }
        }
        command
            .args(&self.arguments)
            .current_dir(folder)
            .env(DATA_ENV, folder.join("data"))
            .envs(
                addresses
                    .iter()
                    .map(|(name, address)| (name, address.to_string())),
            )
            .envs(&self.environment);
        command
    }
}

/// A running process. Ends on drop.
pub struct ServerProcess {
    // Declared before the folder, so that the process ends before its folder is removed.
    process: WatchedProcess,
    folder: TempFolder,
    addresses: BTreeMap<String, SocketAddr>,
    options: ServerProcessOptions,
}

impl ServerProcess {
    /// Options to run `program` without arguments; its data folder is [`ServerProcess::data_folder`].
    pub fn options(program: impl AsRef<OsStr>) -> ServerProcessOptions {
        ServerProcessOptions {
            program: PathBuf::from(program.as_ref()),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            listen: Vec::new(),
        }
    }

    /// Options to run `program serve` with HTTP and gRPC on free ports, see [`ServerProcess::http_url`] and
    /// [`ServerProcess::grpc_address`].
    pub fn parlor_serve(program: impl AsRef<OsStr>) -> ServerProcessOptions {
        Self::options(program)
            .arg("serve")
            .listen(HTTP_ENV)
            .listen(GRPC_ENV)
    }

    /// Process id; it changes with a restart.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Address that [`ServerProcessOptions::listen`] has chosen for this environment variable.
    pub fn address(&self, name: &str) -> SocketAddr {
        *self
            .addresses
            .get(name)
            .unwrap_or_else(|| panic!("no address was requested with listen({name:?})"))
    }

    /// Address of HTTP.
    pub fn http_address(&self) -> SocketAddr {
        self.address(HTTP_ENV)
    }

    /// Base URL of HTTP: `http://127.0.0.1:port`.
    pub fn http_url(&self) -> String {
        format!("http://{}", self.http_address())
    }

    /// Address of gRPC.
    pub fn grpc_address(&self) -> SocketAddr {
        self.address(GRPC_ENV)
    }

    /// Working folder; a restart keeps it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Default data folder. The test may have set another one.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Standard output and standard error since the last start.
    pub fn output(&self) -> String {
        self.process.log()
    }

    /// Waits for a line of output that contains `text` and returns the line.
    pub async fn wait_for_line(&self, text: &str) -> String {
        self.process.wait_for_line(text).await
    }

    /// Sends `SIGTERM` and waits for the exit.
    pub async fn terminate_and_wait(&mut self) -> ExitStatus {
        self.send_sigterm();
        self.wait_for_exit().await
    }

    /// Sends `SIGTERM` without waiting.
    pub fn send_sigterm(&mut self) {
        self.process.signal(Signal::TERM);
    }

    /// Waits for the exit.
    pub async fn wait_for_exit(&mut self) -> ExitStatus {
        self.process.wait().await
    }

    /// False after the process has ended.
    pub fn is_running(&mut self) -> bool {
        self.process.status().is_none()
    }

    /// Sends `SIGKILL`.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Sends `SIGSTOP`: the process keeps its connections and does nothing.
    pub fn pause(&mut self) {
        self.process.signal(Signal::STOP);
    }

    /// Continues a paused process.
    pub fn resume(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Starts the process again in its folder and on its addresses. Kills it first if it runs.
    pub async fn restart(&mut self) {
        self.kill9();
        let attempt = || {
            let command = self.options.command(self.folder.path(), &self.addresses);
            (command, listens_on_all(&self.addresses))
        };
        let log = self.folder.path().join("log");
        self.process =
            WatchedProcess::start(&self.options.name(), &log, StopSignal::Kill, attempt).await;
    }
}

/// Returns the check whether a process listens on all these addresses.
fn listens_on_all(
    addresses: &BTreeMap<String, SocketAddr>,
) -> impl Fn(&WatchedProcess) -> bool + use<> {
    let ports: Vec<_> = addresses.values().map(SocketAddr::port).collect();
    move |process| {
        let mut ports = ports.iter();
        ports.all(|port| listening_port::process_listens_on(process.id(), *port))
    }
}
