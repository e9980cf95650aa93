//! Pipelines: split by server, sent in parallel, replies put together in order.
//!
//! Invariants:
//! 1. Commands for one server keep their order, except commands that are retried. On a Cluster, a pipeline without
//!    `atomic()` may span slots.
//! 2. Only commands that were not executed are retried (see `retry`), each on its own: a command that got `NOSCRIPT`, a
//!    redirection or an unready server does not make the others run twice.
//! 3. A transaction is retried only as a whole, and only if none of it was executed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};

use super::cluster::routing::CommandRoute;
use super::cluster::topology::parse_redirection;
use super::connection_command::reject_connection_command;
use super::primary_pool::PrimaryPool;
use super::retry::{AttemptError, Attempts, is_read_only, proves_not_executed};
use super::{AttemptTarget, RedisBackend};
use crate::error_class::server_errors;
use crate::script::{self, LuaScript};
use crate::url::ServerAddress;

/// Commands that are sent to one server together.
struct PipelineGroup {
    pool: Arc<PrimaryPool>,
    asking: bool,
    /// Positions in the pipeline.
    indices: Vec<usize>,
}

/// A pipeline in progress.
struct PipelineRun<'a> {
    commands: Vec<&'a Cmd>,
    replies: Vec<Option<Value>>,
    /// Positions that must be sent or retried. `redirects` contains the targets of redirected ones.
    pending: Vec<usize>,
    redirects: HashMap<usize, (ServerAddress, bool)>,
    /// Scripts that were loaded on the way, once per server.
    loaded_scripts: Vec<(Arc<PrimaryPool>, &'static LuaScript)>,
}

impl RedisBackend {
    /// Runs a pipeline, with retries as far as they are safe.
    pub(crate) async fn pipeline(
        &self,
        pipe: &Pipeline,
        offset: usize,
        count: usize,
        idempotent: bool,
    ) -> RedisResult<Vec<Value>> {
        pipe.cmd_iter().try_for_each(reject_connection_command)?;
        let deadline = Instant::now() + self.shared.request_timeout;
        if pipe.is_transaction() {
            let inlined = script::with_sources(pipe);
            return self
                .transaction(
                    inlined.as_ref().unwrap_or(pipe),
                    offset,
                    count,
                    idempotent,
                    deadline,
                )
                .await;
        }
        let commands = pipe.cmd_iter().collect::<Vec<_>>();
        let mut batch = PipelineRun {
            replies: vec![None; commands.len()],
            pending: (0..commands.len()).collect(),
            commands,
            redirects: HashMap::new(),
            loaded_scripts: Vec::new(),
        };
        let mut attempts = Attempts::until(deadline);
        loop {
            let groups = match self.group_by_server(&batch) {
                Ok(groups) => groups,
                Err(failed) if !attempts.is_last() && failed.may_retry(|| idempotent) => {
                    attempts.next(false).await;
                    continue;
                }
                Err(failed) => return Err(failed.error),
            };
            let sent = groups
                .into_iter()
                .map(|group| self.send_group(pipe, &batch, group, deadline));
            let results = join_all(sent).await;
            let loads = batch.collect_replies(results, idempotent, attempts.is_last())?;
            if batch.pending.is_empty() {
                return Ok(batch
                    .replies
                    .into_iter()
                    .map(|reply| reply.unwrap_or(Value::Nil))
                    .collect());
            }
            if loads.is_empty() {
                self.request_topology_refresh();
                attempts.next(!batch.redirects.is_empty()).await;
            }
            for (pool, script) in loads {
                pool.load_script(script, deadline)
                    .await
                    .map_err(|failed| failed.error)?;
            }
        }
    }

    fn group_by_server(&self, batch: &PipelineRun<'_>) -> Result<Vec<PipelineGroup>, AttemptError> {
        let mut groups: Vec<PipelineGroup> = Vec::new();
        for &index in &batch.pending {
            let redirect = batch.redirects.get(&index).cloned();
            let (pool, asking) =
                match self.select_target(self.route_of(batch.commands[index]), redirect)? {
                    AttemptTarget::Primary(pool) => (pool, false),
                    AttemptTarget::PrimaryWithAsking(pool) => (pool, true),
                    AttemptTarget::AllPrimaries(..) => {
                        return Err(AttemptError::no_retry(all_primaries_error(
                            batch.commands[index],
                        )));
                    }
                };
            match groups
                .iter_mut()
                .find(|group| group.asking == asking && Arc::ptr_eq(&group.pool, &pool))
            {
                Some(group) => group.indices.push(index),
                None => groups.push(PipelineGroup {
                    pool,
                    asking,
                    indices: vec![index],
                }),
            }
        }
        Ok(groups)
    }

    async fn send_group(
        &self,
        whole: &Pipeline,
        batch: &PipelineRun<'_>,
        group: PipelineGroup,
        deadline: Instant,
    ) -> (PipelineGroup, Result<Vec<Value>, AttemptError>) {
        if group.indices.len() == whole.len() && !group.asking {
            let replies = group.pool.pipeline(whole, 0, whole.len(), deadline).await;
            return (group, replies);
        }
        let mut pipe = Pipeline::with_capacity(group.indices.len());
        for index in &group.indices {
            if group.asking {
                pipe.cmd("ASKING");
            }
            pipe.add_command(batch.commands[*index].clone());
        }
        let mut replies = group.pool.pipeline(&pipe, 0, pipe.len(), deadline).await;
        if let (true, Ok(values)) = (group.asking, &mut replies) {
            let kept = std::mem::take(values).into_iter().skip(1).step_by(2);
            *values = kept.collect();
        }
        (group, replies)
    }

    async fn transaction(
        &self,
        pipe: &Pipeline,
        offset: usize,
        count: usize,
        idempotent: bool,
        deadline: Instant,
    ) -> RedisResult<Vec<Value>> {
        let route = self.common_route(pipe)?;
        let mut redirect = None;
        let mut attempts = Attempts::until(deadline);
        loop {
            let result = match self.select_target(route, redirect.take()) {
                Ok(AttemptTarget::Primary(pool) | AttemptTarget::PrimaryWithAsking(pool)) => {
                    pool.pipeline(pipe, offset, count, deadline).await
                }
                Ok(AttemptTarget::AllPrimaries(..)) => {
                    unreachable!("the route of a transaction is one server")
                }
                Err(failed) => Err(failed),
            };
            let retry = match &result {
                Ok(values) => values.iter().any(proves_not_executed),
                Err(failed) => failed.may_retry(|| idempotent || pipe.cmd_iter().all(is_read_only)),
            };
            if retry || result.is_err() {
                self.request_topology_refresh();
            }
            if !retry || attempts.is_last() {
                return result.map_err(|failed| failed.error);
            }
            // A transaction cannot follow `ASK`, which covers one command only. It waits until the slot has moved.
            redirect = moved_target(&result);
            attempts.next(redirect.is_some()).await;
        }
    }

    /// The one route of all commands.
    fn common_route(&self, pipe: &Pipeline) -> RedisResult<CommandRoute> {
        let mut common = CommandRoute::AnyPrimary;
        for cmd in pipe.cmd_iter() {
            match (self.route_of(cmd), common) {
                (CommandRoute::AllPrimaries(_), _) => return Err(all_primaries_error(cmd)),
                (CommandRoute::Slot(slot), CommandRoute::Slot(other)) if slot != other => {
                    let detail = "give the keys of a transaction one hash tag".to_owned();
                    return Err((
                        redis::ServerErrorKind::CrossSlot.into(),
                        "keys of two slots",
                        detail,
                    )
                        .into());
                }
                (route @ CommandRoute::Slot(_), _) => common = route,
                (CommandRoute::AnyPrimary, _) => {}
            }
        }
        Ok(common)
    }
}

impl PipelineRun<'_> {
    /// Sorts the replies into finished and pending commands. Returns the scripts that must be loaded before the next
    /// attempt.
    fn collect_replies(
        &mut self,
        results: Vec<(PipelineGroup, Result<Vec<Value>, AttemptError>)>,
        idempotent: bool,
        last: bool,
    ) -> RedisResult<Vec<(Arc<PrimaryPool>, &'static LuaScript)>> {
        let mut loads = Vec::new();
        let mut pending = Vec::new();
        for (group, result) in results {
            match result {
                Ok(values) => {
                    for (index, value) in group.indices.into_iter().zip(values) {
                        let redirect = self.redirects.remove(&index);
                        let missing = script::script_to_load(self.commands[index], &value)
                            .filter(|script| !self.has_loaded(&group.pool, script));
                        if let Some(script) = missing {
                            loads.push((Arc::clone(&group.pool), script));
                            self.redirects.extend(redirect.map(|to| (index, to)));
                            pending.push(index);
                        } else if proves_not_executed(&value) && !last {
                            self.redirects
                                .extend(parse_redirection(&value).map(|to| (index, to)));
                            pending.push(index);
                        } else {
                            self.replies[index] = Some(value);
                        }
                    }
                }
                Err(failed) => {
                    let reads = || {
                        group
                            .indices
                            .iter()
                            .all(|index| is_read_only(self.commands[*index]))
                    };
                    if last || !failed.may_retry(|| idempotent || reads()) {
                        return Err(failed.error);
                    }
                    for index in &group.indices {
                        self.redirects.remove(index);
                    }
                    pending.extend(group.indices);
                }
            }
        }
        pending.sort_unstable();
        self.pending = pending;
        loads.sort_by_key(|(pool, script)| (Arc::as_ptr(pool).addr(), script.source()));
        loads.dedup_by(|a, b| Arc::ptr_eq(&a.0, &b.0) && a.1.source() == b.1.source());
        self.loaded_scripts.extend_from_slice(&loads);
        Ok(loads)
    }

    fn has_loaded(&self, pool: &Arc<PrimaryPool>, script: &LuaScript) -> bool {
        self.loaded_scripts
            .iter()
            .any(|(other, loaded)| Arc::ptr_eq(other, pool) && loaded.source() == script.source())
    }
}

fn moved_target(result: &Result<Vec<Value>, AttemptError>) -> Option<(ServerAddress, bool)> {
    let found = match result {
        Ok(values) => values.iter().find_map(parse_redirection),
        Err(failed) => server_errors(&failed.error)
            .into_iter()
            .find_map(|error| parse_redirection(&Value::ServerError(error))),
    };
    found.filter(|(_, asking)| !asking)
}

fn all_primaries_error(cmd: &Cmd) -> RedisError {
    let name = match cmd.args_iter().next() {
        Some(redis::Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    };
    (
        ErrorKind::Client,
        "runs on all servers of a cluster: send it by itself, not in a pipeline",
        name,
    )
        .into()
}
