//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// With fewer than this a busy server runs out of connections.
const LOW_OPEN_FILES_LIMIT: u64 = 10_000;

/// Takes as many as the system allows: each connection is one.
pub fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, all)
    {
        debug!(%error, "cannot raise the open files limit");
    }
    if let Some(most) = getrlimit(Resource::Nofile).current
        && most < LOW_OPEN_FILES_LIMIT
    {
        warn!(
            most,
            "the open files limit allows few connections; raise it with ulimit -n"
        );
    }
}
