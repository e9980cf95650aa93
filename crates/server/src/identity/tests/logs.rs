//! What was logged, for tests to read.
//!
//! One subscriber serves the whole process, because `tracing` remembers for each place in the code whether anybody listens: a
//! subscriber of one thread can miss what another thread came across first. What it writes is kept by thread.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::Once;

thread_local! {
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What this thread has logged since it was made.
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

/// Writes to the buffer of this thread.
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
