//! Unix user of PostgreSQL.

use std::{fs, path::Path, process::Command};

/// User that PostgreSQL runs as when the tests run as root.
pub(super) struct SystemUser {
    pub uid: u32,
    pub gid: u32,
}

impl SystemUser {
    pub fn for_postgres() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let found = ["postgres", "nobody"]
            .iter()
            .find_map(|name| users.lines().find_map(|line| Self::parse(line, name)));
        Some(found.expect("PostgreSQL does not run as root; create a user postgres or nobody"))
    }

    /// Parses `name:password:user:group:...`
    fn parse(line: &str, name: &str) -> Option<Self> {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some(Self {
            uid: fields.nth(1)?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    }

    pub fn command_as(user: Option<&Self>, program: &Path) -> Command {
        let Some(Self { uid, gid }) = user else {
            return Command::new(program);
        };
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={uid}"))
            .arg(format!("--regid={gid}"))
            .args(["--clear-groups", "--"])
            .arg(program);
        command
    }
}
