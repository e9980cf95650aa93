//! The folder of a new server, made once and copied for each: `initdb` takes a second or more.
//!
//! Always true: a template is whole, because it gets its name when it is; which of several makers was first does not matter.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use tokio::sync::OnceCell;

use super::{Account, run};
use crate::process::Folder;

/// Puts the data of a new server to `data`.
pub(super) async fn copy(programs: &Path, account: Option<&Account>, data: &Path) {
    static TEMPLATE: OnceCell<PathBuf> = OnceCell::const_new();
    let template = TEMPLATE.get_or_init(|| find(programs, account)).await;
    duplicate(template, data).await;
}

/// The template beside the program that runs, so that a clean build has a new one; made if it is not there.
async fn find(programs: &Path, account: Option<&Account>) -> PathBuf {
    let program = std::env::current_exe().expect("a program knows where it is");
    let beside = program.parent().expect("a program is in a folder");
    // Other programs or another user need another one.
    let made = fs::metadata(programs.join("initdb")).map_or(0, |initdb| initdb.mtime());
    let user = account.map_or(rustix::process::geteuid().as_raw(), |account| account.user);
    let template = beside.join(format!("postgres-template-{user}-{made}"));
    if !template.exists() {
        make(programs, account, &template).await;
    }
    template
}

async fn make(programs: &Path, account: Option<&Account>, template: &Path) {
    let folder = Folder::new("initdb");
    if let Some(account) = account {
        chown(folder.path(), Some(account.user), Some(account.group)).unwrap();
    }
    let data = folder.path().join("data");
    let mut initdb = Account::command(account, &programs.join("initdb"));
    initdb.current_dir(folder.path()).arg("-D").arg(&data);
    initdb.args(["--no-sync", "--no-instructions", "--auth=trust"]);
    initdb.args(["--username=postgres", "--encoding=UTF8", "--locale=C"]);
    // Little to copy.
    initdb.arg("--wal-segsize=1");
    run(initdb).await;

    let unfinished = template.with_extension(std::process::id().to_string());
    duplicate(&data, &unfinished).await;
    if fs::rename(&unfinished, template).is_err() {
        assert!(template.exists(), "{} cannot be made", template.display());
        let _ = fs::remove_dir_all(unfinished);
    }
}

async fn duplicate(from: &Path, to: &Path) {
    let mut cp = Command::new("cp");
    cp.arg("-a").arg(from).arg(to);
    run(cp).await;
}
