//! Checks the embedded store: folder, free space, file.

use std::path::Path;

use parlor_store::Store;

use super::super::store_reader::{has_store, query};
use super::Finding;
use crate::config::Config;

/// Free space below which a warning is reported: writes may soon fail.
const MIN_FREE_BYTES: u64 = 256 << 20;

/// Checks the folder and the free space.
pub fn check_folder(config: &Config) -> Vec<Finding> {
    let folder = config.server.data_folder.as_path();
    let shown = folder.display();
    if !folder.exists() {
        let finding = format!("{shown} does not exist yet; the first `parlor serve` creates it");
        let nearest = folder
            .ancestors()
            .find(|path| path.is_dir())
            .unwrap_or(Path::new("."));
        return vec![Finding::info("folder", finding), check_free_space(nearest)];
    }
    if !folder.is_dir() {
        let fix = "move the file away, or set another folder with server.data";
        return vec![Finding::fail(
            "folder",
            format!("{shown} is not a folder"),
            fix,
        )];
    }
    // Writing a file covers permissions, ownership and read-only mounts.
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    let written = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    let first = match written {
        Ok(()) if !has_store(folder) => {
            let finding = format!(
                "{shown} is writable and contains no store yet; the first `parlor serve` creates one"
            );
            Finding::info("folder", finding)
        }
        Ok(()) => Finding::ok("folder", format!("{shown} is writable")),
        Err(error) => Finding::fail(
            "folder",
            format!("{shown} is not writable: {error}"),
            format!("run as the user that runs the server, or `chown -R $(id -u) {shown}`"),
        ),
    };
    vec![first, check_free_space(folder)]
}

fn check_free_space(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let finding = format!("{} MiB free", free >> 20);
            if free < MIN_FREE_BYTES {
                Finding::warn(
                    "space",
                    finding,
                    "free disk space: writes fail when the disk is full",
                )
            } else {
                Finding::ok("space", finding)
            }
        }
        Err(error) => Finding::info("space", format!("free space is unknown: {error}")),
    }
}

/// Checks the file. Opening it has already read all of it.
pub async fn check_store_file(store: &Store) -> Finding {
    match query::<u64>(store, &redis::cmd("DBSIZE")).await {
        Ok(keys) => Finding::ok("file", format!("readable, {keys} keys")),
        Err(error) => Finding::fail(
            "file",
            format!("cannot be read: {error}"),
            "restore it from a backup",
        ),
    }
}
