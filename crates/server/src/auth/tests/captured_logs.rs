//! Captures logs for tests.
//!
//! One subscriber serves the whole process, because `tracing` caches for each call site whether a subscriber is
//! interested. With one subscriber per thread, a test could miss events of call sites that another thread reached
//! first. The captured text is kept per thread.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

thread_local! {
    static LOG_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Log of this thread since the last `collect`.
pub struct CapturedLogs(());

impl CapturedLogs {
    pub fn collect() -> CapturedLogs {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| {
            let subscriber = tracing_subscriber::fmt()
                .with_writer(|| LogWriter)
                .with_ansi(false);
            tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
            tracing::callsite::rebuild_interest_cache();
        });
        LOG_BUFFER.take();
        CapturedLogs(())
    }

    pub fn text(&self) -> String {
        LOG_BUFFER.with_borrow(|written| String::from_utf8(written.clone()).unwrap())
    }
}

/// Writes to the buffer of the current thread.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG_BUFFER.with_borrow_mut(|written| written.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
