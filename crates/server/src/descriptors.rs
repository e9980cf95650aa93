//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// With fewer than this a busy server runs out of connections.
const FEW: u64 = 10_000;

/// Takes as many as the system allows: each connection is one.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, all)
    {
        debug!(%error, "the limit of open files stays as it is");
    }
    if let Some(most) = getrlimit(Resource::Nofile).current
        && most < FEW
    {
        warn!(
            most,
            "few connections are possible: raise the limit of open files (ulimit -n)"
        );
    }
}
