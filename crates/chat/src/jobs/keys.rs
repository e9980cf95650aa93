//! The keys of jobs.
//!
//! Always true: a job's lease and its last run share a hash tag, so that one step can look at both.

use crate::ids::JobName;
use crate::keys::{Capability, Key, KeySpec, Keyspace, Kind, Source, Ttl};

/// What jobs own.
pub const CAPABILITY: Capability = Capability {
    name: "jobs",
    title: "Jobs",
    keys: &[LAST_RUN, LEASE],
};

const LAST_RUN: KeySpec = KeySpec::new("cron:last-run:{job}", Kind::String, Ttl::Never)
    .value("unix ms at which the run was due to start")
    .meaning("written when the run of `unread-reminder` (2 h) or `cleanup-tokens` (24 h) ends; restored from the job's row when missing")
    .source(&[Source::S0]);

const LEASE: KeySpec = KeySpec::internal(
    "parlor:job:{job}",
    Kind::String,
    Ttl::Described("the runner's lease"),
)
.value("node id and epoch of the runner")
.meaning("who runs the job now; taken over when the lease ends");

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
