//! Signals of a running server: shutdown, and reload of the configuration.
//!
//! ```text
//! SIGTERM, SIGINT                          ─▶ shutdown
//! SIGHUP, process with a terminal          ─▶ shutdown: the terminal was closed
//! SIGHUP, process without a terminal       ─▶ reload
//! SIGUSR1                                  ─▶ ignored
//! ```
//!
//! Invariants:
//! 1. A reload applies `log.level` and nothing else. An invalid configuration changes nothing.
//! 2. A reload names every other setting that was changed since the start, without its value: it may be a secret.

use std::fs::File;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::config::LoadedConfig;
use crate::logging::LogLevelHandle;

/// The only setting that a reload applies.
const RELOADABLE_SETTING: &str = "log.level";

/// The installed signals.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// True if the process had a controlling terminal when it started.
    has_terminal: bool,
}

impl Signals {
    /// Installs the handlers. From now on, none of these signals ends the process by itself.
    pub fn install() -> io::Result<Self> {
        // Dropping the receiver keeps the handler, so the signal is ignored.
        drop(signal(SignalKind::user_defined1())?);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            // Only a process with a controlling terminal can open this file.
            has_terminal: File::open("/dev/tty").is_ok(),
        })
    }
}

/// Reloads the configuration, and waits for the shutdown.
pub struct SignalHandler {
    signals: Signals,
    /// Configuration of the start.
    loaded: LoadedConfig,
    log_level: LogLevelHandle,
}

impl SignalHandler {
    /// Handles these signals for a server with this configuration.
    pub fn new(signals: Signals, loaded: LoadedConfig, log_level: LogLevelHandle) -> Self {
        Self {
            signals,
            loaded,
            log_level,
        }
    }

    /// Completes with the next signal that stops the server. Handles reloads meanwhile.
    pub async fn wait_for_shutdown(&mut self) {
        loop {
            tokio::select! {
                _ = self.signals.terminate.recv() => return,
                _ = self.signals.interrupt.recv() => return,
                _ = self.signals.hangup.recv() => match self.signals.has_terminal {
                    true => return,
                    false => self.reload(),
                },
            }
        }
    }

    fn reload(&self) {
        let new = match self.loaded.reload() {
            Ok(new) => new,
            Err(problems) => {
                error!(%problems, "the configuration is invalid and was not reloaded");
                return;
            }
        };
        for warning in &new.warnings {
            warn!("{warning}");
        }
        let level = &new.config.log.level;
        self.log_level.set_level(level);
        info!(level, "reloaded the configuration");
        let changed = self.loaded.values.iter().zip(new.values.iter());
        let changed: Vec<&str> = changed
            .filter(|((_, old, _), (_, new, _))| old != new)
            .map(|((setting, ..), _)| setting.name)
            .filter(|name| *name != RELOADABLE_SETTING)
            .collect();
        if !changed.is_empty() {
            let settings = changed.join(", ");
            warn!(
                settings,
                "restart the server to apply these changed settings"
            );
        }
    }
}
