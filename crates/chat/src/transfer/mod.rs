//! Import and export of everything that the database holds for users, as JSON lines.
//!
//! ```text
//! export   pages in the order of the primary keys, in one snapshot ─▶ records ─▶ lines
//! import   lines ─▶ check of the whole file ─▶ pages of 500 records, one transaction each ─▶ invariants ─▶ caches
//!                                               │ exact: rows of a file that Parlor exported
//!                                               └ assigned: `seq`, `rev` and ids of any other file
//! ```
//!
//! Invariants:
//! 1. A record passes the validation of the operation that writes the same row, so an import creates no row that the
//!    API cannot create.
//! 2. A page is written completely or not at all. A row that exists is not written again, so an import that was killed
//!    continues when it runs again, and a second import of the same file changes nothing.
//! 3. From the first page until the end of the import, the database is marked as incomplete, and no server opens it.
//! 4. An export reads one snapshot. An import of it into an empty database, and an export of that, give the same bytes.
//! 5. Memory depends on the size of a page and on the number of conversations, not on the number of messages.

mod assigned;
mod caches;
mod check;
mod error;
mod exact;
mod export;
mod fields;
mod import;
mod lines;
mod records;
mod rows;
mod tables;

pub use self::caches::{bind_store, refresh_caches};
pub use self::check::{FileCheck, LimitedProblems, check_file};
pub use self::error::{ImportError, LineProblem, TransferError};
pub use self::export::Export;
pub use self::import::{Import, PageCounts, find_unknown_conversations};
pub use self::lines::{NumberedRecord, RecordReader};
pub use self::records::{EndRecord, FileFormat, HeaderRecord, Record, RecordCounts, RecordType};
pub use self::tables::ExportTable;

use crate::clock::Timestamp;
use crate::options::MessageOptions;

/// Records per transaction of an import, and rows per statement of an export.
pub const PAGE_SIZE: usize = 500;

/// Limits that the records of a file must respect.
#[derive(Debug, Clone)]
pub struct ImportLimits {
    /// Limits of messages, as the server has them.
    pub messages: MessageOptions,
    /// Latest time at which something in a file of another system can have happened: the current time.
    pub now: Timestamp,
}
