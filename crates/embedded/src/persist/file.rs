//! The store's file and its folder: who may have it, how it is made, what is refused before SQLite sees it.
//!
//! Always true:
//! 1. `store.db` appears whole, by a rename: a file of no bytes is a damaged one, not a young one.
//! 2. A file is recognised by its first bytes, read without SQLite, which would replay a log into whatever lies there.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::failure::Fault;
use super::row;
use crate::error::EngineOpenError;

/// "Prlr" in the header of the file.
pub const APPLICATION_ID: i32 = 0x5072_6C72;
/// The format this version writes, and the newest one it reads.
pub const FORMAT_VERSION: i64 = 1;

const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
const SQLITE_HEADER_LEN: usize = 100;
const APPLICATION_ID_OFFSET: usize = 68;
/// How long to wait for another reader or writer of the file, such as an operator's tool.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What a connection to the file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Reading beside whoever writes.
    Read,
    /// Writing, under the folder's lock.
    Write,
}

/// The right to write to a folder, until it is dropped or the process ends in any way.
pub struct DataFolderLock(#[expect(dead_code, reason = "held for its lock")] File);

impl DataFolderLock {
    /// Takes the folder, making it if it is missing.
    pub fn acquire(folder: &Path) -> Result<Self, EngineOpenError> {
        let path = folder.join("store.lock");
        let io = |source| EngineOpenError::Io {
            path: path.clone(),
            source,
        };
        // What is said in a chat is not for the others on the machine.
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(folder).map_err(io)?;
        let options = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = options.map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(EngineOpenError::Locked {
                path: folder.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }
}

/// The file that holds the data.
pub struct StoreFile {
    folder: PathBuf,
    path: PathBuf,
}

impl StoreFile {
    /// The file of a folder, whether it exists or not.
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

    /// The error of a start that SQLite stopped.
    pub fn refused(&self, source: rusqlite::Error) -> EngineOpenError {
        EngineOpenError::Sqlite {
            path: self.path.clone(),
            source,
        }
    }

    /// The error of a start that stopped for this.
    pub fn fault(&self, fault: Fault) -> EngineOpenError {
        match fault {
            Fault::Corrupt(problem) => self.corrupt_error(problem),
            Fault::NewerFormat(found_version) => EngineOpenError::NewerFormat {
                path: self.path.clone(),
                found_version,
                supported_version: FORMAT_VERSION,
            },
            Fault::Sqlite(source) => self.refused(source),
        }
    }

    /// Makes an empty store where there is none. The caller holds the lock.
    pub fn create_if_missing(&self) -> Result<(), EngineOpenError> {
        if self.path.try_exists().map_err(|e| self.io_error(e))? {
            return Ok(());
        }
        // SQLite would replay the log of the file that was here into the new one.
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
        create_empty(&new).map_err(|e| self.refused(e))?;
        fs::rename(&new, &self.path).map_err(|e| self.io_error(e))?;
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| self.io_error(e))
    }

    /// Refuses a file that is too short for a store.
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

    /// Refuses a file that is not a store, without changing anything about it. Not to be called while this process has
    /// the file open in SQLite: closing any handle of a file gives up all of the process's POSIX locks on it.
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

    /// Opens the file.
    pub fn connect(&self, access: FileAccess) -> Result<Connection, EngineOpenError> {
        match access {
            FileAccess::Write => self
                .open_for_writing()
                .map_err(|error| self.fault(error.into())),
            FileAccess::Read => self
                .open_for_reading()
                .map_err(|error| self.fault(error.into())),
        }
    }

    fn open_for_writing(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        configure(&connection)?;
        let pragma =
            |name, value: &dyn rusqlite::ToSql| connection.pragma_update(None, name, value);
        pragma("journal_mode", &"wal")?;
        pragma("synchronous", &"full")?;
        // A checkpoint that runs by itself hides its failures, a failed fsync among them.
        pragma("wal_autocheckpoint", &0)?;
        pragma("journal_size_limit", &(64 * 1024 * 1024))?;
        // In KiB when negative: a big batch spills to the log above this.
        pragma("cache_size", &-32_768)?;
        Ok(connection)
    }

    fn open_for_reading(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        configure(&connection)?;
        Ok(connection)
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

fn create_empty(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", FORMAT_VERSION)?;
    connection.execute_batch(&row::CREATE_TABLES.join(";"))?;
    let meta = row::StoreMetaRow {
        closed_cleanly: true,
        run_id: String::new(),
    };
    meta.write(&connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.close().map_err(|(_, error)| error)
}
