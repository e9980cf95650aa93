//! The store file: creation, and the checks that run before SQLite opens the file.
//!
//! Invariants:
//! 1. `store.db` appears complete, by a rename. An empty file is therefore corrupt, not new.
//! 2. A store file is recognised by its header, which is read without SQLite. SQLite would replay a WAL into whatever
//!    file has that name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::schema;
use super::sqlite_error::StoreLoadError;
use crate::error::EngineOpenError;

/// `application_id` of a store file: "Prlr".
pub const APPLICATION_ID: i32 = 0x5072_6C72;
/// Format version that this version of Parlor writes, and the newest version that it reads.
pub const FORMAT_VERSION: i64 = 1;

const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
const SQLITE_HEADER_LEN: usize = 100;
const APPLICATION_ID_OFFSET: usize = 68;
/// Time to wait for another reader or writer of the file, such as an operator's tool.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Purpose of a connection to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Reading, while another process may write.
    Read,
    /// Writing, under the folder lock.
    Write,
}

/// The SQLite file that holds the data.
pub struct StoreFile {
    folder: PathBuf,
    path: PathBuf,
}

impl StoreFile {
    /// Store file of a folder. The file need not exist.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            path: folder.join("store.db"),
        }
    }

    fn sibling_path(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn corrupt_error(&self, problem: impl Into<String>) -> EngineOpenError {
        EngineOpenError::Corrupt {
            path: self.path.clone(),
            problem: problem.into(),
        }
    }

    fn io_error(&self, source: io::Error) -> EngineOpenError {
        EngineOpenError::Io {
            path: self.path.clone(),
            source,
        }
    }

    pub fn sqlite_error(&self, source: rusqlite::Error) -> EngineOpenError {
        EngineOpenError::Sqlite {
            path: self.path.clone(),
            source,
        }
    }

    pub fn load_error(&self, error: StoreLoadError) -> EngineOpenError {
        match error {
            StoreLoadError::Corrupt(problem) => self.corrupt_error(problem),
            StoreLoadError::NewerFormat(found_version) => EngineOpenError::NewerFormat {
                path: self.path.clone(),
                found_version,
                supported_version: FORMAT_VERSION,
            },
            StoreLoadError::Sqlite(source) => self.sqlite_error(source),
        }
    }

    /// Creates an empty store if the file is missing. The caller holds the folder lock.
    pub fn create_if_missing(&self) -> Result<(), EngineOpenError> {
        if self.path.try_exists().map_err(|e| self.io_error(e))? {
            return Ok(());
        }
        // SQLite would replay the WAL of the missing file into the new file.
        if self
            .sibling_path("-wal")
            .try_exists()
            .map_err(|e| self.io_error(e))?
        {
            return Err(self.corrupt_error("it is missing, but its WAL file store.db-wal exists"));
        }
        let new = self.sibling_path(".new");
        for leftover in ["", "-journal", "-wal", "-shm"] {
            let mut name = new.clone().into_os_string();
            name.push(leftover);
            match fs::remove_file(Path::new(&name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(self.io_error(e)),
                _ => {}
            }
        }
        create_empty(&new).map_err(|e| self.sqlite_error(e))?;
        fs::rename(&new, &self.path).map_err(|e| self.io_error(e))?;
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| self.io_error(e))
    }

    /// Rejects a file that is too short for a store.
    pub fn reject_truncated_file(&self) -> Result<(), EngineOpenError> {
        match fs::metadata(&self.path)
            .map_err(|e| self.io_error(e))?
            .len()
        {
            length if length < SQLITE_HEADER_LEN as u64 => Err(self.corrupt_error(format!(
                "it has {length} bytes, which is too short for a store"
            ))),
            _ => Ok(()),
        }
    }

    /// Rejects a file that is not a store, and does not change it. Must not be called while this process has the file
    /// open in SQLite: closing any handle of a file releases all POSIX locks that the process holds on it.
    pub fn check_header(&self) -> Result<(), EngineOpenError> {
        self.reject_truncated_file()?;
        let mut header = [0; SQLITE_HEADER_LEN];
        let file = File::open(&self.path);
        file.and_then(|mut file| file.read_exact(&mut header))
            .map_err(|e| self.io_error(e))?;
        if !header.starts_with(SQLITE_MAGIC) {
            return Err(self.corrupt_error("it is not an SQLite file"));
        }
        if header[APPLICATION_ID_OFFSET..][..4] != APPLICATION_ID.to_be_bytes() {
            return Err(self.corrupt_error("it is an SQLite file of another program"));
        }
        Ok(())
    }

    pub fn connect(&self, access: FileAccess) -> Result<Connection, EngineOpenError> {
        self.open_connection(access)
            .map_err(|error| self.load_error(error.into()))
    }

    fn open_connection(&self, access: FileAccess) -> rusqlite::Result<Connection> {
        let mode = match access {
            FileAccess::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            FileAccess::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        let pragma =
            |name, value: &dyn rusqlite::ToSql| connection.pragma_update(None, name, value);
        connection.busy_timeout(BUSY_TIMEOUT)?;
        pragma("trusted_schema", &false)?;
        pragma("cell_size_check", &true)?;
        if access == FileAccess::Read {
            return Ok(connection);
        }
        pragma("journal_mode", &"wal")?;
        pragma("synchronous", &"full")?;
        // An automatic checkpoint hides its failures, a failed fsync among them.
        pragma("wal_autocheckpoint", &0)?;
        pragma("journal_size_limit", &(64 * 1024 * 1024))?;
        // A negative size is in KiB. A batch that needs more spills to the WAL.
        pragma("cache_size", &-32_768)?;
        Ok(connection)
    }
}

fn create_empty(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT_VERSION)?;
    connection.execute_batch(&schema::CREATE_TABLES.join(";"))?;
    let meta = schema::StoreMetaRow {
        closed_cleanly: true,
        run_id: String::new(),
    };
    meta.write(&connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.close().map_err(|(_, error)| error)
}
