//! One server process: starts it, sends signals, reads its log, and stops it on drop.
//!
//! Invariant: after `kill9`, `stop` or drop, the process has ended and is reaped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{
    eventually::{PollBackoff, TEST_TIMEOUT},
    watchdog::{StopSignal, WatchedChild},
};

/// Maximum number of starts if the chosen ports are taken.
const MAX_START_ATTEMPTS: usize = 50;
/// Log messages of servers that mean that a port is taken.
const PORT_TAKEN_MESSAGES: [&str; 2] = ["address already in use", "is in use by another process"];

pub(crate) struct WatchedProcess {
    watched: WatchedChild,
    end: StopSignal,
    name: String,
    log: PathBuf,
    /// Length of the log when this process started; earlier text belongs to previous processes.
    log_start: usize,
}

impl WatchedProcess {
    pub(crate) fn spawn(name: &str, command: &Command, log: &Path, end: StopSignal) -> Self {
        let log_start = fs::metadata(log).map_or(0, |log| log.len() as usize);
        Self {
            watched: WatchedChild::spawn(command, log, end),
            end,
            name: name.to_owned(),
            log: log.to_owned(),
            log_start,
        }
    }

    /// Starts the program until it is ready. Retries with the next `command` if a port was taken, and panics on any
    /// other failure.
    pub(crate) async fn start(
        name: &str,
        log: &Path,
        end: StopSignal,
        mut command: impl FnMut() -> Command,
        ready: impl Fn(&WatchedProcess) -> bool,
    ) -> Self {
        let mut last = String::new();
        for _ in 0..MAX_START_ATTEMPTS {
            let mut process = Self::spawn(name, &command(), log, end);
            if process.is_up(&ready).await {
                return process;
            }
            last = process.log();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "{name} did not start: its port was taken in each of {MAX_START_ATTEMPTS} attempts; last log:\n{last}"
        )
    }

    /// Returns false if the process ended because its port was taken.
    async fn is_up(&mut self, ready: impl Fn(&WatchedProcess) -> bool) -> bool {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut pace = PollBackoff::default();
        loop {
            if ready(self) {
                return true;
            }
            if let Some(status) = self.status() {
                let log = self.log();
                let told = log.to_lowercase();
                if PORT_TAKEN_MESSAGES.iter().any(|it| told.contains(it)) {
                    return false;
                }
                panic!("{} did not start ({status}); its log:\n{log}", self.name);
            }
            if Instant::now() > deadline {
                panic!(
                    "{} was not ready after {TEST_TIMEOUT:?}; its log:\n{}",
                    self.name,
                    self.log()
                );
            }
            pace.wait().await;
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.watched.id()
    }

    /// Output of this process so far.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default()).into_owned()
    }

    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.watched.status()
    }

    /// Sends a signal. No effect if the process has ended.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.status().is_none()
            && let Some(pid) = pid(self.id())
        {
            // The process may end at this moment.
            let _ = kill_process(pid, signal);
        }
    }

    pub(crate) fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.watched.reap();
    }

    /// Waits until the process has ended, by itself or after a signal.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut pace = PollBackoff::default();
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            if Instant::now() > deadline {
                panic!(
                    "{} did not end within {TEST_TIMEOUT:?}; its log:\n{}",
                    self.name,
                    self.log()
                );
            }
            pace.wait().await;
        }
    }

    /// Waits for the first complete line of the log that contains `text`.
    pub(crate) async fn wait_for_line(&self, text: &str) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut pace = PollBackoff::default();
        loop {
            // Checked before the log is read, so that the last output of an ended process is seen.
            let running = is_running(self.id());
            let log = self.log();
            // A line without a line break is not complete yet.
            let complete = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
            if let Some(line) = complete.lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            if !running {
                panic!(
                    "{} ended before it wrote {text:?}; its log:\n{log}",
                    self.name
                );
            }
            if Instant::now() > deadline {
                panic!(
                    "{} did not write {text:?} within {TEST_TIMEOUT:?}; its log:\n{log}",
                    self.name
                );
            }
            pace.wait().await;
        }
    }

    fn end(&mut self) {
        if self.end == StopSignal::Quit {
            self.signal(Signal::QUIT);
            let deadline = Instant::now() + Duration::from_secs(10);
            while self.status().is_none() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
        }
        self.kill9();
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Temporary folder, removed on drop. Declare it after the process that uses it, so that the process ends first.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(crate::watchdog::create_temp_folder(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The watchdog removes the rest.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// True if a process with this id exists and has not ended.
#[must_use]
pub fn is_running(process: u32) -> bool {
    // A process that was not reaped yet still has an id; its state (Z or X) follows the name in brackets.
    if let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) {
        return !stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
    }
    pid(process).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}
