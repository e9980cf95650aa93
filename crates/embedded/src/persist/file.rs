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
use crate::error::OpenError;

/// "Prlr" in the header of the file.
pub const APPLICATION: i32 = 0x5072_6C72;
/// The format this version writes, and the newest one it reads.
pub const FORMAT: i64 = 1;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER: usize = 100;
const APPLICATION_AT: usize = 68;
/// How long to wait for another reader or writer of the file, such as an operator's tool.
const BUSY: Duration = Duration::from_secs(5);

/// What a connection to the file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading beside whoever writes.
    Read,
    /// Writing, under the folder's lock.
    Write,
}

/// The right to write to a folder, until it is dropped or the process ends in any way.
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] File);

impl Lock {
    /// Takes the folder, making it if it is missing.
    pub fn take(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join("store.lock");
        let io = |source| OpenError::Io {
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
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked {
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

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn damaged(&self, what: impl Into<String>) -> OpenError {
        OpenError::Damaged {
            path: self.path.clone(),
            what: what.into(),
        }
    }

    fn io(&self, source: io::Error) -> OpenError {
        OpenError::Io {
            path: self.path.clone(),
            source,
        }
    }

    /// The error of a start that SQLite stopped.
    pub fn refused(&self, source: rusqlite::Error) -> OpenError {
        OpenError::Sqlite {
            path: self.path.clone(),
            source,
        }
    }

    /// The error of a start that stopped for this.
    pub fn fault(&self, fault: Fault) -> OpenError {
        match fault {
            Fault::Damaged(what) => self.damaged(what),
            Fault::Newer(found) => OpenError::Newer {
                path: self.path.clone(),
                found,
                known: FORMAT,
            },
            Fault::Sqlite(source) => self.refused(source),
        }
    }

    /// Makes an empty store where there is none. The caller holds the lock.
    pub fn create_if_missing(&self) -> Result<(), OpenError> {
        if self.path.try_exists().map_err(|e| self.io(e))? {
            return Ok(());
        }
        // SQLite would replay the log of the file that was here into the new one.
        if self.beside("-wal").try_exists().map_err(|e| self.io(e))? {
            return Err(self.damaged("it is missing, but its log store.db-wal is there"));
        }
        let new = self.beside(".new");
        for leftover in ["", "-journal", "-wal", "-shm"] {
            let mut name = new.clone().into_os_string();
            name.push(leftover);
            match fs::remove_file(Path::new(&name)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(self.io(e)),
                _ => {}
            }
        }
        create(&new).map_err(|e| self.refused(e))?;
        fs::rename(&new, &self.path).map_err(|e| self.io(e))?;
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| self.io(e))
    }

    /// Refuses a file that is too short for a store.
    pub fn refuse_stump(&self) -> Result<(), OpenError> {
        match fs::metadata(&self.path).map_err(|e| self.io(e))?.len() {
            length if length < HEADER as u64 => {
                Err(self.damaged(format!("it has {length} bytes, less than any store")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a file that is not a store, without changing anything about it. Not to be called while this process has
    /// the file open in SQLite: closing any handle of a file gives up all of the process's POSIX locks on it.
    pub fn inspect(&self) -> Result<(), OpenError> {
        self.refuse_stump()?;
        let mut header = [0; HEADER];
        let file = File::open(&self.path);
        file.and_then(|mut file| file.read_exact(&mut header))
            .map_err(|e| self.io(e))?;
        if !header.starts_with(MAGIC) {
            return Err(self.damaged("it is not an SQLite file"));
        }
        if header[APPLICATION_AT..][..4] != APPLICATION.to_be_bytes() {
            return Err(self.damaged("it is an SQLite file of another program"));
        }
        Ok(())
    }

    /// Opens the file.
    pub fn connect(&self, access: Access) -> Result<Connection, OpenError> {
        match access {
            Access::Write => self
                .connect_to_write()
                .map_err(|error| self.fault(error.into())),
            Access::Read => self
                .connect_to_read()
                .map_err(|error| self.fault(error.into())),
        }
    }

    fn connect_to_write(&self) -> rusqlite::Result<Connection> {
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

    fn connect_to_read(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        configure(&connection)?;
        Ok(connection)
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)
}

fn create(path: &Path) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", FORMAT)?;
    connection.execute_batch(&row::TABLES.join(";"))?;
    let meta = row::Meta {
        clean: true,
        run_id: String::new(),
    };
    meta.write(&connection)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.close().map_err(|(_, error)| error)
}
