//! Data folder of a new server. `initdb` takes a second or more, so its result is created once and copied for each
//! server.
//!
//! Invariant: a template is complete, because it is renamed to its name when it is complete. If several processes
//! create it at once, any of the results is used.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use tokio::sync::OnceCell;

use super::{SystemUser, run_command};
use crate::watched_process::TempFolder;

/// Copies the template to `data`.
pub(super) async fn copy_template(bin_dir: &Path, user: Option<&SystemUser>, data: &Path) {
    static TEMPLATE: OnceCell<PathBuf> = OnceCell::const_new();
    let template = TEMPLATE
        .get_or_init(|| find_or_create_template(bin_dir, user))
        .await;
    copy_folder(template, data).await;
}

/// Finds the template beside the running program, so that a clean build has a new one. Creates it if it is missing.
async fn find_or_create_template(bin_dir: &Path, user: Option<&SystemUser>) -> PathBuf {
    let program = std::env::current_exe().expect("the path of the running program is known");
    let beside = program.parent().expect("a program has a parent folder");
    // Other PostgreSQL programs or another user need another template.
    let modified = fs::metadata(bin_dir.join("initdb")).map_or(0, |initdb| initdb.mtime());
    let uid = user.map_or(rustix::process::geteuid().as_raw(), |user| user.uid);
    let template = beside.join(format!("postgres-template-{uid}-{modified}"));
    if !template.exists() {
        create_template(bin_dir, user, &template).await;
    }
    template
}

async fn create_template(bin_dir: &Path, user: Option<&SystemUser>, template: &Path) {
    let folder = TempFolder::new("initdb");
    if let Some(user) = user {
        chown(folder.path(), Some(user.uid), Some(user.gid)).unwrap();
    }
    let data = folder.path().join("data");
    let mut initdb = SystemUser::command_as(user, &bin_dir.join("initdb"));
    initdb.current_dir(folder.path()).arg("-D").arg(&data);
    initdb.args(["--no-sync", "--no-instructions", "--auth=trust"]);
    initdb.args(["--username=postgres", "--encoding=UTF8", "--locale=C"]);
    // Small WAL segments, so that there is little to copy.
    initdb.arg("--wal-segsize=1");
    run_command(initdb).await;

    let partial = template.with_extension(std::process::id().to_string());
    copy_folder(&data, &partial).await;
    if fs::rename(&partial, template).is_err() {
        assert!(template.exists(), "cannot create {}", template.display());
        let _ = fs::remove_dir_all(partial);
    }
}

async fn copy_folder(from: &Path, to: &Path) {
    let mut cp = Command::new("cp");
    cp.arg("-a").arg(from).arg(to);
    run_command(cp).await;
}
