//! The Redis backend: standalone, Sentinel and Cluster behind one way to send a request.
//!
//! Invariants:
//! 1. A request ends within [`StoreOptions::request_timeout`](crate::StoreOptions::request_timeout), all attempts
//!    included.
//! 2. A request is executed at most once, unless it is read-only or the caller declared it idempotent.

pub(crate) mod breaker;
pub(crate) mod cluster;
pub(crate) mod connect;
pub(crate) mod lines;
pub(crate) mod link;
mod open;
mod pipeline;
pub(crate) mod retry;
pub(crate) mod sentinel;
pub(crate) mod supervisor;

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{join_all, try_join_all};
use redis::{Cmd, RedisResult, Value};

use self::cluster::ClusterBackend;
use self::cluster::slots::{CommandRoute, route_command};
use self::connect::ServerConnector;
use self::link::PrimaryPool;
use self::retry::{AttemptError, MAX_ATTEMPTS, backoff, is_read_only, proves_not_executed};
use crate::clock::monotonic;
use crate::script;
use crate::shared::StoreShared;
use crate::url::ServerAddress;

/// A store on Redis or Valkey.
pub(crate) struct Redis {
    shared: Arc<StoreShared>,
    dialer: ServerConnector,
    deployment: RedisDeployment,
}

enum RedisDeployment {
    Single(Arc<PrimaryPool>),
    Cluster(ClusterBackend),
}

/// Target of one attempt.
enum AttemptTarget {
    Primary(Arc<PrimaryPool>),
    /// A node that imports the slot. It accepts the command only after `ASKING`.
    PrimaryWithAsking(Arc<PrimaryPool>),
    AllPrimaries(Vec<Arc<PrimaryPool>>, cluster::slots::ReplyMerge),
}

impl Redis {
    /// Runs a command, with retries as far as they are safe.
    pub(crate) async fn execute(&self, cmd: &Cmd, repeatable: bool) -> RedisResult<Value> {
        let deadline = monotonic() + self.shared.timeout;
        let place = route_of(&self.deployment, cmd);
        let harmless = || repeatable || is_read_only(cmd);
        let mut redirect = None;
        let mut attempt = 1;
        loop {
            let reply = self.attempt_command(cmd, place, redirect.take(), deadline);
            let reply = reply.await;
            let again = match &reply {
                // If one primary rejected the command, the other primaries may have executed it.
                Ok(reply) => {
                    proves_not_executed(reply) && (!place.is_all_primaries() || harmless())
                }
                Err(_) if place.is_all_primaries() && !harmless() => false,
                Err(failed) => failed.may_retry(harmless),
            };
            let done = !again || attempt >= MAX_ATTEMPTS || monotonic() >= deadline;
            if again || reply.is_err() {
                self.request_topology_refresh();
            }
            if done {
                return reply.map_err(|failed| failed.error);
            }
            redirect = reply
                .as_ref()
                .ok()
                .and_then(cluster::topology::parse_redirection);
            if redirect.is_none() {
                wait_before_retry(attempt, deadline).await;
            }
            attempt += 1;
        }
    }

    async fn attempt_command(
        &self,
        cmd: &Cmd,
        place: CommandRoute,
        redirect: Option<(ServerAddress, bool)>,
        deadline: Instant,
    ) -> Result<Value, AttemptError> {
        let (link, asking) = match self.select_target(place, redirect)? {
            AttemptTarget::AllPrimaries(links, reduce) => {
                let all = links.iter().map(|link| link.command(cmd, deadline));
                return Ok(reduce.merge(try_join_all(all).await?));
            }
            AttemptTarget::PrimaryWithAsking(link) => (link, true),
            AttemptTarget::Primary(link) => (link, false),
        };
        let reply = send_command(&link, asking, cmd, deadline).await?;
        match script::script_to_load(cmd, &reply) {
            Some(missing) => {
                link.load_script(missing.source(), deadline).await?;
                send_command(&link, asking, cmd, deadline).await
            }
            None => Ok(reply),
        }
    }

    fn select_target(
        &self,
        place: CommandRoute,
        redirect: Option<(ServerAddress, bool)>,
    ) -> Result<AttemptTarget, AttemptError> {
        let cluster = match &self.deployment {
            RedisDeployment::Single(link) => return Ok(AttemptTarget::Primary(Arc::clone(link))),
            RedisDeployment::Cluster(cluster) => cluster,
        };
        match (redirect, place) {
            (Some((node, true)), _) => Ok(AttemptTarget::PrimaryWithAsking(
                cluster.pool_for_address(&node),
            )),
            (Some((node, false)), _) => Ok(AttemptTarget::Primary(cluster.pool_for_address(&node))),
            (None, CommandRoute::AllPrimaries(reduce)) => {
                Ok(AttemptTarget::AllPrimaries(cluster.all_pools(), reduce))
            }
            (None, place) => cluster.pool_for_route(place).map(AttemptTarget::Primary),
        }
    }

    fn request_topology_refresh(&self) {
        if let RedisDeployment::Cluster(cluster) = &self.deployment {
            cluster.doubt();
        }
    }

    /// Runs a command on each primary, with one attempt. Returns the address and the reply of each primary.
    pub(crate) async fn each_primary(&self, cmd: &Cmd) -> Vec<(String, RedisResult<Value>)> {
        let deadline = monotonic() + self.shared.timeout;
        let asked = self.primary_pools().into_iter().map(|link| async move {
            let reply = link.command(cmd, deadline).await;
            let reply = reply.map_err(|failed| failed.error);
            (link.server(), reply.and_then(Value::extract_error))
        });
        join_all(asked).await
    }

    /// Pools of all primaries.
    pub(crate) fn primary_pools(&self) -> Vec<Arc<PrimaryPool>> {
        match &self.deployment {
            RedisDeployment::Single(link) => vec![Arc::clone(link)],
            RedisDeployment::Cluster(cluster) => cluster.all_pools(),
        }
    }

    pub(crate) fn cluster(&self) -> Option<&Arc<cluster::ClusterInner>> {
        match &self.deployment {
            RedisDeployment::Single(_) => None,
            RedisDeployment::Cluster(cluster) => Some(cluster.core()),
        }
    }

    pub(crate) fn connector(&self) -> &ServerConnector {
        &self.dialer
    }

    /// Closes all connections.
    pub(crate) fn close(&self) {
        if let RedisDeployment::Cluster(cluster) = &self.deployment {
            cluster.close();
        }
        self.primary_pools().iter().for_each(|link| link.close());
    }
}

/// Sends a command to one server, after `ASKING` if the server does not own the slot yet.
async fn send_command(
    link: &PrimaryPool,
    asking: bool,
    cmd: &Cmd,
    deadline: Instant,
) -> Result<Value, AttemptError> {
    if !asking {
        return link.command(cmd, deadline).await;
    }
    let mut pipe = redis::pipe();
    pipe.cmd("ASKING").add_command(cmd.clone());
    let mut replies = link.pipeline(&pipe, 0, 2, deadline).await?;
    Ok(replies.pop().unwrap_or(Value::Nil))
}

fn route_of(routes: &RedisDeployment, cmd: &Cmd) -> CommandRoute {
    match routes {
        RedisDeployment::Single(_) => CommandRoute::AnyPrimary,
        RedisDeployment::Cluster(_) => route_command(cmd),
    }
}

/// Waits before the next attempt, but not beyond the deadline.
async fn wait_before_retry(attempt: u32, deadline: Instant) {
    let until = (monotonic() + backoff(attempt)).min(deadline);
    tokio::time::sleep_until(until.into()).await;
}

/// A random incarnation for a server that does not report one: every connection to it could lead to another process.
pub(crate) fn random_incarnation() -> String {
    format!("unknown:{:016x}", rand::random::<u64>())
}
