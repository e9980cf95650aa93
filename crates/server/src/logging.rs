//! Logging to stderr: readable text on a terminal, JSON lines otherwise. Results of commands go to stdout.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::config::{LogConfig, LogFormat};

/// Changes the log level of the running process.
pub struct LogLevelHandle(reload::Handle<EnvFilter, Registry>);

impl LogLevelHandle {
    /// Sets the filter of `log.level`.
    pub fn set_level(&self, level: &str) {
        // An error means that the process has another subscriber.
        let _ = self.0.reload(parse_filter(level));
    }
}

/// Installs the log subscriber of the process. A second call has no effect.
pub fn init_logging(log: &LogConfig, color: bool) -> LogLevelHandle {
    let terminal = stderr().is_terminal();
    let json = match log.format {
        LogFormat::Json => true,
        LogFormat::Human => false,
        LogFormat::Auto => !terminal,
    };
    let lines = fmt::layer().with_writer(stderr);
    let lines = if json {
        let lines = lines.json().flatten_event(true);
        lines.with_current_span(false).with_span_list(false).boxed()
    } else {
        lines
            .with_ansi(color && terminal)
            .with_target(false)
            .boxed()
    };
    let (filter, handle) = reload::Layer::new(parse_filter(&log.level));
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    if subscriber.try_init().is_err() {
        tracing::debug!("logging is already initialized");
    }
    LogLevelHandle(handle)
}

/// The configuration check has already parsed the filter, so the fallback is not used.
fn parse_filter(level: &str) -> EnvFilter {
    EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new("info"))
}
