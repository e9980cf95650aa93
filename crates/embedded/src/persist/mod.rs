//! Keeping the data on disk: one SQLite file in a folder that one process has to itself.
//!
//! Always true:
//! 1. The file shows the state between two commands: a batch is one transaction, and no command is in two batches.
//! 2. Every row has a checksum over its content, and the pages are checked at every start: what is loaded is what was
//!    written, or nothing is loaded.
//! 3. A file that is not ours, or that cannot be trusted, is never written to.
//! 4. `clean` is 0 in the file before the first write of a run is accepted, and 1 only after its last one is durable.

mod batch;
mod failure;
mod file;
mod load;
mod row;
mod writer;

use std::path::Path;

pub(crate) use batch::FlushBatch;
pub(crate) use failure::is_failed_fsync;
pub(crate) use writer::StoreWriter;

use crate::db::Db;
use crate::error::EngineOpenError;
pub use file::DataFolderLock;
use file::{FileAccess, StoreFile};

/// A store that was opened for writing.
pub(crate) struct OpenedStore {
    /// Writes what changes from now on.
    pub writer: StoreWriter,
    /// Whether the last run ended with everything written.
    pub previous_run_was_clean: bool,
}

/// Takes the folder, makes the file if there is none, loads everything into `db` and begins its journal.
pub(crate) fn open(
    folder: &Path,
    run_id: &str,
    db: &mut Db,
) -> Result<OpenedStore, EngineOpenError> {
    let lock = DataFolderLock::acquire(folder)?;
    let file = StoreFile::in_folder(folder);
    file.create_if_missing()?;
    file.check_header()?;
    db.journal.enable();
    let (connection, meta) = check_and_load(&file, FileAccess::Write, db)?;
    let mut writer = StoreWriter::new(connection, lock, run_id);
    // A full disk is met as in the middle of a run: reads go on, writes are refused until there is room.
    match writer.mark_run_started() {
        Err(error) if !failure::is_transient(&error) => Err(file.refused(error)),
        _ => Ok(OpenedStore {
            writer,
            previous_run_was_clean: meta.closed_cleanly,
        }),
    }
}

/// Loads what was flushed last into `db`, whether or not another process is writing to the folder.
pub(crate) fn load_read_only(folder: &Path, db: &mut Db) -> Result<(), EngineOpenError> {
    check_and_load(&StoreFile::in_folder(folder), FileAccess::Read, db).map(drop)
}

fn check_and_load(
    file: &StoreFile,
    access: FileAccess,
    db: &mut Db,
) -> Result<(rusqlite::Connection, row::StoreMetaRow), EngineOpenError> {
    file.reject_truncated_file()?;
    let connection = file.connect(access)?;
    let second = file.connect(FileAccess::Read)?;
    let result = std::thread::scope(|scope| {
        let check = scope.spawn(move || load::check_pages(&second));
        let loaded = load::load(&connection, db);
        let checked = check
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // A damaged page explains more than the row that was read from it.
        checked.and(loaded)
    });
    result
        .map(|meta| (connection, meta))
        .map_err(|fault| file.fault(fault))
}
