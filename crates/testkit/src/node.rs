//! One Parlor process, as users run it.
//!
//! Always true:
//! 1. It sees only the environment that the test gives it and a few harmless variables, and runs in a
//!    folder of its own, so neither the developer's settings nor a configuration file reach it.
//! 2. `start` returns after the process itself listens on every port that was asked for.

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
    listening, ports,
    process::{Folder, WatchedProcess},
    watchdog::StopSignal,
};

/// The setting with the address for HTTP.
const HTTP_ENV: &str = "PARLOR_SERVER__HTTP";
/// The setting with the address for gRPC.
const GRPC_ENV: &str = "PARLOR_SERVER__GRPC";
/// The setting with the data folder.
const DATA_ENV: &str = "PARLOR_SERVER__DATA";
/// What a node may inherit.
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

/// How a node is started.
#[derive(Clone, Debug)]
pub struct ServerProcessOptions {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    listen: Vec<String>,
}

impl ServerProcessOptions {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a variable, for example `PARLOR_STORE__URL`.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets a variable to a free address, on which the node then must listen, see [`Node::address`].
    #[must_use]
    pub fn listen(mut self, name: impl Into<String>) -> Self {
        self.listen.push(name.into());
        self
    }

    /// Starts the node and waits until it listens.
    ///
    /// # Panics
    /// If it ends before that, with its output.
    pub async fn start(self) -> Node {
        let folder = Folder::new("node");
        let mut addresses = BTreeMap::new();
        let process = {
            let ports = std::cell::RefCell::new(&mut addresses);
            let command = || {
                let mut ports = ports.borrow_mut();
                **ports = self.choose_addresses();
                self.command(folder.path(), &ports)
            };
            let ready = |process: &WatchedProcess| {
                let ports = ports.borrow();
                ports
                    .values()
                    .all(|address| listening::process_listens_on(process.id(), address.port()))
            };
            WatchedProcess::start(
                &self.name(),
                &folder.path().join("log"),
                StopSignal::Kill,
                command,
                ready,
            )
            .await
        };
        Node {
            process,
            folder,
            addresses,
            options: self,
        }
    }

    /// Starts the node without waiting, for one that is expected to end, see [`Node::wait`].
    #[must_use]
    pub fn spawn(self) -> Node {
        let folder = Folder::new("node");
        let addresses = self.choose_addresses();
        let command = self.command(folder.path(), &addresses);
        let process = WatchedProcess::spawn(
            &self.name(),
            &command,
            &folder.path().join("log"),
            StopSignal::Kill,
        );
        Node {
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
                let address = SocketAddr::from(([127, 0, 0, 1], ports::find_free_port()));
                // Nobody listens there yet, so it may be drawn again.
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

/// A running node. Ends on drop.
pub struct Node {
    // Before the folder: it must be gone when its folder goes.
    process: WatchedProcess,
    folder: Folder,
    addresses: BTreeMap<String, SocketAddr>,
    options: ServerProcessOptions,
}

impl Node {
    /// A node run from `program` without arguments; its data folder is [`Node::data`].
    #[must_use]
    pub fn options(program: impl AsRef<OsStr>) -> ServerProcessOptions {
        ServerProcessOptions {
            program: PathBuf::from(program.as_ref()),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            listen: Vec::new(),
        }
    }

    /// `program serve` with HTTP and gRPC on free ports, see [`Node::http`] and [`Node::grpc`].
    #[must_use]
    pub fn parlor_serve(program: impl AsRef<OsStr>) -> ServerProcessOptions {
        Self::options(program)
            .arg("serve")
            .listen(HTTP_ENV)
            .listen(GRPC_ENV)
    }

    /// The process id; another one after a restart.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The address that was put into a variable by [`NodeOptions::listen`].
    ///
    /// # Panics
    /// If there was none under this name.
    #[must_use]
    pub fn address(&self, name: &str) -> SocketAddr {
        *self
            .addresses
            .get(name)
            .unwrap_or_else(|| panic!("no address was requested with listen({name:?})"))
    }

    /// Where it serves HTTP: `http://127.0.0.1:port`.
    ///
    /// # Panics
    /// If it was not started by [`Node::serve`].
    #[must_use]
    pub fn http(&self) -> String {
        format!("http://{}", self.address(HTTP_ENV))
    }

    /// Where it serves gRPC.
    ///
    /// # Panics
    /// If it was not started by [`Node::serve`].
    #[must_use]
    pub fn grpc(&self) -> SocketAddr {
        self.address(GRPC_ENV)
    }

    /// The folder it runs in; kept by a restart.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder it was told, unless the test set another.
    #[must_use]
    pub fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What it wrote to standard output and standard error since it was last started.
    #[must_use]
    pub fn output(&self) -> String {
        self.process.log()
    }

    /// Waits for a line of output that contains `text` and returns the line.
    ///
    /// # Panics
    /// If none comes in time or before the node ends, with the output.
    pub async fn wait_for_line(&self, text: &str) -> String {
        self.process.wait_for_line(text).await
    }

    /// Asks it to stop (`SIGTERM`) and waits for the end.
    ///
    /// # Panics
    /// If it does not end in time, with its output.
    pub async fn terminate_and_wait(&mut self) -> ExitStatus {
        self.send_sigterm();
        self.wait().await
    }

    /// Asks it to stop (`SIGTERM`) and does not wait.
    pub fn send_sigterm(&mut self) {
        self.process.signal(Signal::TERM);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end in time, with its output.
    pub async fn wait(&mut self) -> ExitStatus {
        self.process.wait().await
    }

    /// False once it has ended.
    pub fn is_running(&mut self) -> bool {
        self.process.status().is_none()
    }

    /// Ends it without warning.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Stops it where it is: it keeps its connections and does nothing.
    pub fn pause(&mut self) {
        self.process.signal(Signal::STOP);
    }

    /// Lets a paused node go on.
    pub fn resume(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Starts it again in its folder and on its addresses; one that still runs is killed first.
    ///
    /// # Panics
    /// If it ends before it listens, with its output.
    pub async fn restart(&mut self) {
        self.kill9();
        let command = || self.options.command(self.folder.path(), &self.addresses);
        let ready = |process: &WatchedProcess| {
            let mut addresses = self.addresses.values();
            addresses.all(|address| listening::process_listens_on(process.id(), address.port()))
        };
        let log = self.folder.path().join("log");
        self.process =
            WatchedProcess::start(&self.options.name(), &log, StopSignal::Kill, command, ready)
                .await;
    }
}
