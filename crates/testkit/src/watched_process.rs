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
    eventually::{TEST_TIMEOUT, poll_until},
    proc_stat,
    watchdog::{StopSignal, WatchedChild},
};

/// Maximum number of starts if the chosen ports are taken.
const MAX_START_ATTEMPTS: usize = 50;
/// Log messages of servers that mean that a port is taken.
const PORT_TAKEN_MESSAGES: [&str; 2] = ["address already in use", "is in use by another process"];

pub(crate) struct WatchedProcess {
    watched: WatchedChild,
    stop_signal: StopSignal,
    name: String,
    log: PathBuf,
    /// Length of the log when this process started; earlier text belongs to previous processes.
    log_start: usize,
}

impl WatchedProcess {
    pub(crate) fn spawn(
        name: &str,
        command: &Command,
        log: &Path,
        stop_signal: StopSignal,
    ) -> Self {
        let log_start = fs::metadata(log).map_or(0, |log| log.len() as usize);
        Self {
            watched: WatchedChild::spawn(command, log, stop_signal),
            stop_signal,
            name: name.to_owned(),
            log: log.to_owned(),
            log_start,
        }
    }

    /// Starts the program and waits until it is ready. `attempt` returns the command of each start and the check
    /// whether the process is ready. Retries if a port was taken, and panics on any other failure.
    pub(crate) async fn start<R: Fn(&Self) -> bool>(
        name: &str,
        log: &Path,
        stop_signal: StopSignal,
        mut attempt: impl FnMut() -> (Command, R),
    ) -> Self {
        let mut last_log = String::new();
        for _ in 0..MAX_START_ATTEMPTS {
            let (command, is_ready) = attempt();
            let mut process = Self::spawn(name, &command, log, stop_signal);
            if process.wait_until_ready(is_ready).await {
                return process;
            }
            last_log = process.log();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "{name} did not start: its port was taken in each of {MAX_START_ATTEMPTS} attempts; last log:\n{last_log}"
        )
    }

    /// Returns false if the process ended because its port was taken.
    async fn wait_until_ready(&mut self, is_ready: impl Fn(&Self) -> bool) -> bool {
        let ready = poll_until(TEST_TIMEOUT, async || {
            if is_ready(self) {
                return Some(true);
            }
            let status = self.status()?;
            let log = self.log().to_lowercase();
            if PORT_TAKEN_MESSAGES.iter().any(|it| log.contains(it)) {
                return Some(false);
            }
            self.panic_with_log(&format!("did not start ({status})"))
        });
        match ready.await {
            Some(ready) => ready,
            None => self.panic_with_log(&format!("was not ready after {TEST_TIMEOUT:?}")),
        }
    }

    fn panic_with_log(&self, problem: &str) -> ! {
        panic!("{} {problem}; its log:\n{}", self.name, self.log())
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
        match poll_until(TEST_TIMEOUT, async || self.status()).await {
            Some(status) => status,
            None => self.panic_with_log(&format!("did not end within {TEST_TIMEOUT:?}")),
        }
    }

    /// Waits for the first complete line of the log that contains `text`.
    pub(crate) async fn wait_for_line(&self, text: &str) -> String {
        let line = poll_until(TEST_TIMEOUT, async || {
            // Checked before the log is read, so that the last output of an ended process is seen.
            let is_running = is_running(self.id());
            let log = self.log();
            // A line without a line break is not complete yet.
            let complete = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
            let line = complete.lines().find(|line| line.contains(text));
            if line.is_none() && !is_running {
                self.panic_with_log(&format!("ended before it wrote {text:?}"));
            }
            line.map(str::to_owned)
        });
        match line.await {
            Some(line) => line,
            None => self.panic_with_log(&format!("did not write {text:?} within {TEST_TIMEOUT:?}")),
        }
    }

    fn stop(&mut self) {
        if self.stop_signal == StopSignal::Quit {
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
        self.stop();
    }
}

/// Temporary folder, removed on drop. Declare it after the process that uses it, so that the process ends first.
pub(crate) struct TempFolder(PathBuf);

impl TempFolder {
    pub(crate) fn new(name: &str) -> Self {
        Self(crate::watchdog::create_temp_folder(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // The watchdog removes the rest.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// True if a process with this id exists and has not ended.
pub fn is_running(process: u32) -> bool {
    // A process that was not reaped yet still has an id.
    if let Some(stat) = proc_stat::read(process) {
        return !matches!(stat.state, 'Z' | 'X');
    }
    pid(process).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn pid(id: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(id).ok()?)
}
