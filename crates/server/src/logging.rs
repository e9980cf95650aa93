//! Logging to stderr: readable text on a terminal, JSON lines otherwise. Results of commands go to stdout.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

/// Installs the log subscriber of the process. A second call has no effect.
pub fn init_logging(log: &LogConfig, color: bool) {
    let terminal = std::io::stderr().is_terminal();
    // The configuration check has already parsed the filter, so the fallback is not used.
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
