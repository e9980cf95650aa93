//! Line-by-line table of a document.
//!
//! Invariants:
//! 1. The rows cover the document from line 1 to its last line, without gap or overlap.
//! 2. Every row has a check, or says why it has none yet, or that the lines describe no key and no flow.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt;

use super::side_by_side::SideBySide;

/// Check of one row against a running Parlor and a running old service.
pub type LineCheck = for<'a> fn(&'a SideBySide) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// How a row is covered.
pub enum Coverage {
    Checked(LineCheck),
    /// The capability is not built yet. A check replaces this when the capability is built.
    Planned(&'static str),
    /// Prose, headings, configuration of Redis itself.
    NotAKey,
}

/// Lines of a document.
pub struct TableRow {
    pub first: u32,
    pub last: u32,
    /// Content of these lines in a few words.
    pub says: &'static str,
    pub coverage: Coverage,
}

/// Row with a check: `checked(8, 18, "…", |run| Box::pin(check(run)))`.
pub const fn checked(first: u32, last: u32, says: &'static str, check: LineCheck) -> TableRow {
    let coverage = Coverage::Checked(check);
    TableRow {
        first,
        last,
        says,
        coverage,
    }
}

/// Row of a capability that is not built yet.
pub const fn planned(
    first: u32,
    last: u32,
    says: &'static str,
    capability: &'static str,
) -> TableRow {
    let coverage = Coverage::Planned(capability);
    TableRow {
        first,
        last,
        says,
        coverage,
    }
}

/// Row without a key, a command or a flow.
pub const fn not_a_key(first: u32, last: u32, says: &'static str) -> TableRow {
    let coverage = Coverage::NotAKey;
    TableRow {
        first,
        last,
        says,
        coverage,
    }
}

/// Fails unless the rows cover the lines of the document, each once.
pub fn assert_complete(rows: &[TableRow], line_count: u32) {
    let mut next = 1;
    for row in rows {
        assert_eq!(row.first, next, "gap or overlap before: {}", row.says);
        assert!(row.first <= row.last, "{}", row.says);
        next = row.last + 1;
    }
    assert_eq!(next - 1, line_count, "the last line of the document");
}

/// Runs every check, in the order of the document. Fails with all rows whose check failed.
pub async fn run_checks(rows: &[TableRow], run: &SideBySide) {
    let mut failed = Vec::new();
    for row in rows {
        let line = format!("lines {}-{}: {}", row.first, row.last, row.says);
        match row.coverage {
            Coverage::Checked(check) => {
                if AssertUnwindSafe(check(run)).catch_unwind().await.is_err() {
                    failed.push(line);
                }
            }
            Coverage::Planned(capability) => println!("planned ({capability}): {line}"),
            Coverage::NotAKey => {}
        }
    }
    assert!(
        failed.is_empty(),
        "failed, with the reasons above:\n{}",
        failed.join("\n")
    );
}

#[test]
#[should_panic(expected = "gap or overlap before: b")]
fn a_table_with_a_gap_is_not_complete() {
    assert_complete(&[not_a_key(1, 3, "a"), not_a_key(5, 6, "b")], 6);
}
