//! Persistence: one SQLite file in a folder that one process locks.
//!
//! Invariants:
//! 1. The file shows the state between two commands: a batch is one transaction, and no command is split over two
//!    batches.
//! 2. Every row has a checksum over its content, and SQLite checks its pages at every start. Either exactly the written
//!    state is loaded, or the start fails.
//! 3. A file that is not a Parlor store, or that is corrupt, is never written to.
//! 4. The column `clean` is 0 in the file before the first write of a run is accepted. It becomes 1 only after the last
//!    write of the run is durable.

mod flush_batch;
mod folder_lock;
mod loader;
mod schema;
mod sqlite_error;
mod store_file;
mod writer;

use std::path::Path;

pub(crate) use flush_batch::FlushBatch;
pub(crate) use sqlite_error::is_failed_fsync;
pub(crate) use writer::StoreWriter;

use crate::db::Db;
use crate::error::EngineOpenError;
pub use folder_lock::DataFolderLock;
use store_file::{FileAccess, StoreFile};

/// Locks the folder, creates the file if it is missing, loads all data into `db` and enables its journal. Returns the
/// writer of this run, and whether the previous run flushed everything before it ended.
pub(crate) fn open(folder: &Path, db: &mut Db) -> Result<(StoreWriter, bool), EngineOpenError> {
    let lock = DataFolderLock::acquire(folder)?;
    let file = StoreFile::in_folder(folder);
    file.create_if_missing()?;
    file.check_header()?;
    db.journal.enable();
    let (connection, meta) = check_and_load(&file, FileAccess::Write, db)?;
    let mut writer = StoreWriter::new(connection, lock, db.run_id.clone());
    // A disk that is full at start is treated like a disk that fills up later: reads work, and writes are rejected
    // until the file can be written.
    match writer.mark_run_started() {
        Err(error) if !sqlite_error::is_transient(&error) => Err(file.sqlite_error(error)),
        _ => Ok((writer, meta.closed_cleanly)),
    }
}

/// Loads the last flushed state into `db`. Another process may have the folder open and write to it.
pub(crate) fn load_read_only(folder: &Path, db: &mut Db) -> Result<(), EngineOpenError> {
    check_and_load(&StoreFile::in_folder(folder), FileAccess::Read, db).map(drop)
}

fn check_and_load(
    file: &StoreFile,
    access: FileAccess,
    db: &mut Db,
) -> Result<(rusqlite::Connection, schema::StoreMetaRow), EngineOpenError> {
    file.reject_truncated_file()?;
    let connection = file.connect(access)?;
    let check_connection = file.connect(FileAccess::Read)?;
    let result = std::thread::scope(|scope| {
        let check = scope.spawn(move || loader::check_pages(&check_connection));
        let loaded = loader::load(&connection, db);
        let checked = check
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // A corrupt page explains more than the row that was read from it.
        checked.and(loaded)
    });
    result
        .map(|meta| (connection, meta))
        .map_err(|error| file.load_error(error))
}
