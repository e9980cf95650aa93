//! The Redis backend: standalone, Sentinel and Cluster behind one way to send a request.
//!
//! Invariants:
//! 1. A request ends within [`StoreOptions::request_timeout`](crate::StoreOptions::request_timeout), all attempts
//!    included.
//! 2. A request is executed at most once, unless it is read-only or the caller declared it idempotent.
//! 3. All callers share the connections, so a command that changes the state of its connection is rejected.

mod circuit_breaker;
pub(crate) mod cluster;
mod connection_command;
pub(crate) mod connector;
mod open;
mod pipeline;
pub(crate) mod primary_pool;
pub(crate) mod retry;
mod sentinel;
mod server_info;

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{join_all, try_join_all};
use redis::{Cmd, RedisResult, Value};

use self::cluster::ClusterBackend;
use self::cluster::routing::{CommandRoute, ReplyMerge, route_command};
use self::cluster::topology::parse_redirection;
use self::connection_command::reject_connection_command;
use self::connector::ServerConnector;
use self::primary_pool::PrimaryPool;
use self::retry::{AttemptError, Attempts, is_read_only, proves_not_executed};
use crate::error_class::{StoreErrorClass, classify_error};
use crate::health::StoreShared;
use crate::script;
use crate::url::ServerAddress;

/// A store on Redis or Valkey.
pub(crate) struct RedisBackend {
    shared: Arc<StoreShared>,
    pub(crate) connector: ServerConnector,
    pub(crate) deployment: RedisDeployment,
}

pub(crate) enum RedisDeployment {
    Single(Arc<PrimaryPool>),
    Cluster(ClusterBackend),
}

/// Target of one attempt.
enum AttemptTarget {
    Primary(Arc<PrimaryPool>),
    /// A node that imports the slot. It accepts the command only after `ASKING`.
    PrimaryWithAsking(Arc<PrimaryPool>),
    AllPrimaries(Vec<Arc<PrimaryPool>>, ReplyMerge),
}

impl RedisBackend {
    /// Runs a command, with retries as far as they are safe.
    pub(crate) async fn execute(&self, cmd: &Cmd, idempotent: bool) -> RedisResult<Value> {
        reject_connection_command(cmd)?;
        let deadline = Instant::now() + self.shared.request_timeout;
        let route = self.route_of(cmd);
        let is_idempotent = || idempotent || is_read_only(cmd);
        let mut redirect = None;
        let mut attempts = Attempts::until(deadline);
        loop {
            let attempt = self.attempt_command(cmd, route, redirect.take(), deadline);
            let reply = attempt.await;
            let retry = match &reply {
                // If one primary rejected the command, the other primaries may have executed it.
                Ok(reply) => {
                    proves_not_executed(reply) && (!route.is_all_primaries() || is_idempotent())
                }
                Err(_) if route.is_all_primaries() && !is_idempotent() => false,
                Err(failed) => failed.may_retry(is_idempotent),
            };
            if retry || reply.is_err() {
                self.request_topology_refresh();
            }
            if !retry || attempts.is_last() {
                return reply.map_err(|failed| failed.error);
            }
            redirect = reply.as_ref().ok().and_then(parse_redirection);
            attempts.next(redirect.is_some()).await;
        }
    }

    async fn attempt_command(
        &self,
        cmd: &Cmd,
        route: CommandRoute,
        redirect: Option<(ServerAddress, bool)>,
        deadline: Instant,
    ) -> Result<Value, AttemptError> {
        let (pool, asking) = match self.select_target(route, redirect)? {
            AttemptTarget::AllPrimaries(pools, merge) => {
                let all = pools.iter().map(|pool| pool.command(cmd, deadline));
                return Ok(merge.merge(try_join_all(all).await?));
            }
            AttemptTarget::PrimaryWithAsking(pool) => (pool, true),
            AttemptTarget::Primary(pool) => (pool, false),
        };
        let reply = send_command(&pool, asking, cmd, deadline).await?;
        match script::script_to_load(cmd, &reply) {
            Some(missing) => {
                pool.load_script(missing, deadline).await?;
                send_command(&pool, asking, cmd, deadline).await
            }
            None => Ok(reply),
        }
    }

    fn select_target(
        &self,
        route: CommandRoute,
        redirect: Option<(ServerAddress, bool)>,
    ) -> Result<AttemptTarget, AttemptError> {
        let cluster = match &self.deployment {
            RedisDeployment::Single(pool) => return Ok(AttemptTarget::Primary(Arc::clone(pool))),
            RedisDeployment::Cluster(cluster) => cluster,
        };
        match (redirect, route) {
            (Some((node, true)), _) => Ok(AttemptTarget::PrimaryWithAsking(
                cluster.pool_for_address(&node),
            )),
            (Some((node, false)), _) => Ok(AttemptTarget::Primary(cluster.pool_for_address(&node))),
            (None, CommandRoute::AllPrimaries(merge)) => {
                Ok(AttemptTarget::AllPrimaries(cluster.all_pools(), merge))
            }
            (None, route) => cluster.pool_for_route(route).map(AttemptTarget::Primary),
        }
    }

    fn request_topology_refresh(&self) {
        if let RedisDeployment::Cluster(cluster) = &self.deployment {
            cluster.core().request_refresh();
        }
    }

    /// Runs a command on each primary, with one attempt. Returns the address and the reply of each primary.
    pub(crate) async fn query_each_primary(&self, cmd: &Cmd) -> Vec<(String, RedisResult<Value>)> {
        let deadline = Instant::now() + self.shared.request_timeout;
        let queries = self.primary_pools().into_iter().map(|pool| async move {
            let reply = pool.command(cmd, deadline).await;
            let reply = reply.map_err(|failed| failed.error);
            (pool.server(), reply.and_then(Value::extract_error))
        });
        join_all(queries).await
    }

    /// Checks that the store accepts writes, by a command that writes nothing: `SETRANGE` with an empty text. A server
    /// rejects it while it is out of memory or cannot persist.
    pub(crate) async fn check_writable(&self, key: &str) -> RedisResult<()> {
        let mut probe = redis::cmd("SETRANGE");
        probe.arg(format!("{key}:probe")).arg(0).arg("");
        let reply = self.execute(&probe, true).await;
        match reply.and_then(Value::extract_error) {
            // The server answers, and says nothing about its memory or its disk.
            Err(error) if classify_error(&error) == StoreErrorClass::Rejected => Ok(()),
            reply => reply.map(drop),
        }
    }

    pub(crate) fn primary_pools(&self) -> Vec<Arc<PrimaryPool>> {
        match &self.deployment {
            RedisDeployment::Single(pool) => vec![Arc::clone(pool)],
            RedisDeployment::Cluster(cluster) => cluster.all_pools(),
        }
    }

    /// Pools of the primaries of a Cluster, none for another store.
    pub(crate) fn cluster_pools(&self) -> Vec<Arc<PrimaryPool>> {
        match &self.deployment {
            RedisDeployment::Single(_) => Vec::new(),
            RedisDeployment::Cluster(cluster) => cluster.all_pools(),
        }
    }

    fn route_of(&self, cmd: &Cmd) -> CommandRoute {
        match &self.deployment {
            RedisDeployment::Single(_) => CommandRoute::AnyPrimary,
            RedisDeployment::Cluster(_) => route_command(cmd),
        }
    }

    pub(crate) fn close(&self) {
        if let RedisDeployment::Cluster(cluster) = &self.deployment {
            cluster.close();
        }
        self.primary_pools().iter().for_each(|pool| pool.close());
    }
}

/// Sends a command to one server, after `ASKING` if the server does not own the slot yet.
async fn send_command(
    pool: &PrimaryPool,
    asking: bool,
    cmd: &Cmd,
    deadline: Instant,
) -> Result<Value, AttemptError> {
    if !asking {
        return pool.command(cmd, deadline).await;
    }
    let mut pipe = redis::pipe();
    pipe.cmd("ASKING").add_command(cmd.clone());
    let mut replies = pool.pipeline(&pipe, 0, 2, deadline).await?;
    Ok(replies.pop().unwrap_or(Value::Nil))
}
