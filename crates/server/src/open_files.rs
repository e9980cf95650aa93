//! The limit of open files, which also limits the number of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// With a lower limit a busy server can run out of connections.
const LOW_OPEN_FILES_LIMIT: u64 = 10_000;

/// Raises the soft limit to the hard limit. Each connection is an open file.
pub fn raise_open_files_limit() {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        ..limits
    };
    if limits.current != limits.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        debug!(%error, "cannot raise the open files limit");
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && limit < LOW_OPEN_FILES_LIMIT
    {
        warn!(
            limit,
            "the open files limit allows few connections; raise it with ulimit -n"
        );
    }
}
