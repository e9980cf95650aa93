//! Reads `/proc/<pid>/stat`.

use std::fs;

pub(crate) struct ProcStat {
    /// `R` running, `S` sleeping, `Z` zombie, `X` dead, …
    pub(crate) state: char,
    parent: u32,
}

/// `None` if there is no such process, or no `/proc`.
pub(crate) fn read(pid: u32) -> Option<ProcStat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // State and parent follow the name, which is in brackets and may contain brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    Some(ProcStat {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
    })
}

/// Ids of the child processes of a process.
pub fn child_pids(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
    pids.filter(|pid| read(*pid).is_some_and(|stat| stat.parent == parent))
        .collect()
}
