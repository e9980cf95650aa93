//! The keys of jobs.
//!
//! Always true: a job's lease and its last run share a hash tag, so that one step can look at both.

use crate::ids::JobName;
use crate::keys::{Key, KeyGroup, KeyKind, KeySource, KeySpec, KeyTtl, Keyspace};

/// What jobs own.
pub const CAPABILITY: KeyGroup = KeyGroup {
    name: "jobs",
    title: "Jobs",
    keys: &[LAST_RUN, LEASE],
};

const LAST_RUN: KeySpec = KeySpec::documented("cron:last-run:{job}", KeyKind::String, KeyTtl::Never)
    .value("unix ms at which the run was due to start")
    .meaning("last run of the job `unread-reminder` (every 2 h) or `cleanup-tokens` (every 24 h); written when the run ends, restored from the job's row if it is missing")
    .sources(&[KeySource::S0]);

const LEASE: KeySpec = KeySpec::internal(
    "parlor:job:{job}",
    KeyKind::String,
    KeyTtl::PerCall("the runner's lease"),
)
.value("node id and boot id of the node that runs the job")
.meaning("lease of the node that runs the job; another node takes over when it expires");

impl Keyspace {
    /// When a job last ran.
    pub fn last_run(&self, job: &JobName) -> Key {
        self.key1(&LAST_RUN, job)
    }

    /// Who runs a job now.
    pub fn job_lease(&self, job: &JobName) -> Key {
        self.key1(&LEASE, job)
    }
}
