//! Logs go to stderr, results of commands to stdout. Human on a terminal, JSON lines otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Starts logging for the whole process. A second call changes nothing.
pub fn start(log: &LogConfig, color: bool) {
    let terminal = std::io::stderr().is_terminal();
    // The filter was accepted when the configuration was checked.
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let json = match log.format {
        LogFormat::Json => true,
        LogFormat::Human => false,
        LogFormat::Auto => !terminal,
    };
    let result = if json {
        builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init()
    } else {
        builder
            .with_ansi(color && terminal)
            .with_target(false)
            .try_init()
    };
    if result.is_err() {
        tracing::debug!("logging is already initialized");
    }
}
