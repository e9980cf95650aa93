//! Captures logs for tests.
//!
//! One subscriber serves the whole process, because `tracing` caches for each call site whether a subscriber is
//! interested. With one subscriber per thread, a test could miss events of call sites that another thread reached
//! first. The captured text is kept per thread.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

thread_local! {
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Log of this thread since the last `collect`.
pub struct Logs(());

impl Logs {
    pub fn collect() -> Logs {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| {
            let subscriber = tracing_subscriber::fmt()
                .with_writer(|| Here)
                .with_ansi(false);
            tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
            tracing::callsite::rebuild_interest_cache();
        });
        WRITTEN.take();
        Logs(())
    }

    pub fn text(&self) -> String {
        WRITTEN.with_borrow(|written| String::from_utf8(written.clone()).unwrap())
    }
}

/// Writes to the buffer of the current thread.
struct Here;

impl Write for Here {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.with_borrow_mut(|written| written.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
