//! Faults of the disk, for one process: a preloaded library between the process and the system makes writes to a chosen
//! file fail, and its syncs fail or hang.
//!
//! Invariants:
//! 1. A fault concerns the named file and its write-ahead log, and no other file.
//! 2. A fault begins with the next call of the process, and ends with its repair.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// Environment variable of the library: folder in which it looks for injected faults.
const FAULT_FOLDER_VAR: &str = "PARLOR_TEST_FAULTS";

/// Fault of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// No space is left: every write fails.
    Full,
    /// Every sync fails.
    FailingSync,
    /// No sync returns.
    HangingSync,
}

impl DiskFault {
    /// Name of the file that injects the fault.
    const fn file_name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::FailingSync => "failing-sync",
            Self::HangingSync => "hanging-sync",
        }
    }
}

/// Injects faults into the processes that were started with its environment.
#[derive(Debug)]
pub struct DiskFaults {
    fault_folder: PathBuf,
    /// Folder of the library and the injected faults; `None` in a process that was started with the environment.
    owned_folder: Option<TempDir>,
}

/// A fault that lasts until it is repaired.
#[must_use = "the fault lasts until it is repaired"]
#[derive(Debug)]
pub struct InjectedDiskFault(PathBuf);

impl DiskFaults {
    /// Builds the library.
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let source = folder.path().join("shim.c");
        fs::write(&source, include_str!("shim.c")).unwrap();
        let compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(library_path(&folder))
            .arg(&source)
            .arg("-ldl")
            .output()
            .expect("a C compiler, which the build of Parlor needs as well");
        assert!(compiler.status.success(), "{compiler:?}");
        Self {
            fault_folder: folder.path().to_owned(),
            owned_folder: Some(folder),
        }
    }

    /// The faults of this process, if it was started with [`DiskFaults::environment`].
    pub fn of_this_process() -> Option<Self> {
        let fault_folder = std::env::var_os(FAULT_FOLDER_VAR)?.into();
        Some(Self {
            fault_folder,
            owned_folder: None,
        })
    }

    /// Environment variables of a process that faults can be injected into.
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let folder = self.owned_folder.as_ref();
        let folder = folder.expect("the process that built the library starts the processes");
        [
            ("LD_PRELOAD", library_path(folder).into()),
            (FAULT_FOLDER_VAR, self.fault_folder.clone().into()),
        ]
    }

    /// Injects a fault into the file of this name, in any folder.
    pub fn inject(&self, fault: DiskFault, file: &str) -> InjectedDiskFault {
        let path = self.fault_folder.join(fault.file_name());
        // The library must never read a half-written name.
        let new = path.with_extension("new");
        fs::write(&new, file).unwrap();
        fs::rename(new, &path).unwrap();
        InjectedDiskFault(path)
    }
}

impl Default for DiskFaults {
    fn default() -> Self {
        Self::new()
    }
}

impl InjectedDiskFault {
    /// Ends the fault.
    pub fn repair(self) {
        fs::remove_file(self.0).unwrap();
    }
}

fn library_path(folder: &TempDir) -> PathBuf {
    folder.path().join("shim.so")
}
