//! One server process: started, signalled, watched through its log, ended on drop.
//!
//! Always true: after `kill9`, `end` or drop the process is gone and reaped.

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

/// How often a start is repeated because a port was taken in the meantime.
const MAX_START_ATTEMPTS: usize = 50;
/// How servers and nodes say that a port is taken.
const PORT_TAKEN_MESSAGES: [&str; 2] = ["address already in use", "is in use by another process"];

pub(crate) struct WatchedProcess {
    watched: WatchedChild,
    end: StopSignal,
    name: String,
    log: PathBuf,
    /// Length of the log when this process started: what came before was written by another one.
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

    /// Starts what `command` says until it is ready or has failed for another reason than a taken port.
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

    /// False if it ended because its port was taken.
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

    /// Everything this process wrote so far.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(log.get(self.log_start..).unwrap_or_default()).into_owned()
    }

    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.watched.status()
    }

    /// Does nothing to a process that has ended.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.status().is_none()
            && let Some(pid) = pid(self.id())
        {
            // It may end by itself just now.
            let _ = kill_process(pid, signal);
        }
    }

    pub(crate) fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.watched.reap();
    }

    /// Waits until it has ended by itself or by a signal sent before.
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

    /// The first line of the log that contains `text`.
    pub(crate) async fn wait_for_line(&self, text: &str) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut pace = PollBackoff::default();
        loop {
            // Before the log is read: what it wrote last must be seen.
            let running = is_running(self.id());
            let log = self.log();
            // A line still being written has no end yet.
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

/// A folder that goes away with its owner. Declare it after the process that uses it.
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
        // The watchdog removes what is left.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a process with this id exists and has not ended.
#[must_use]
pub fn is_running(process: u32) -> bool {
    // An orphan that nobody reaped yet still has an id; its state follows the name in brackets.
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
