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

use super::cluster::slots::CommandRoute;
use super::cluster::topology::parse_redirection;
use super::link::PrimaryPool;
use super::retry::{AttemptError, MAX_ATTEMPTS, is_read_only, proves_not_executed};
use super::{AttemptTarget, Redis, route_of, wait_before_retry};
use crate::clock::monotonic;
use crate::script::{self, LuaScript};
use crate::url::ServerAddress;

/// Commands that are sent to one server together.
struct PipelineGroup {
    link: Arc<PrimaryPool>,
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
    loaded_scripts: Vec<(Arc<PrimaryPool>, &'static str)>,
}

impl Redis {
    /// Runs a pipeline, with retries as far as they are safe.
    pub(crate) async fn pipeline(
        &self,
        pipe: &Pipeline,
        offset: usize,
        count: usize,
        repeatable: bool,
    ) -> RedisResult<Vec<Value>> {
        let deadline = monotonic() + self.shared.timeout;
        if pipe.is_transaction() {
            let inlined = script::with_sources(pipe);
            return self
                .transaction(
                    inlined.as_ref().unwrap_or(pipe),
                    offset,
                    count,
                    repeatable,
                    deadline,
                )
                .await;
        }
        let cmds = pipe.cmd_iter().collect::<Vec<_>>();
        let mut batch = PipelineRun {
            replies: vec![None; cmds.len()],
            pending: (0..cmds.len()).collect(),
            commands: cmds,
            redirects: HashMap::new(),
            loaded_scripts: Vec::new(),
        };
        let mut attempt = 1;
        loop {
            let groups = match self.group_by_server(&batch) {
                Ok(groups) => groups,
                Err(failed) if attempt < MAX_ATTEMPTS && failed.may_retry(|| repeatable) => {
                    wait_before_retry(attempt, deadline).await;
                    attempt += 1;
                    continue;
                }
                Err(failed) => return Err(failed.error),
            };
            let tries = groups
                .into_iter()
                .map(|group| self.send_group(pipe, &batch, group, deadline));
            let results = join_all(tries).await;
            let last = attempt >= MAX_ATTEMPTS || monotonic() >= deadline;
            let loads = batch.collect_replies(results, repeatable, last)?;
            if batch.pending.is_empty() {
                return Ok(batch
                    .replies
                    .into_iter()
                    .map(|reply| reply.unwrap_or(Value::Nil))
                    .collect());
            }
            if loads.is_empty() {
                self.request_topology_refresh();
                if batch.redirects.is_empty() {
                    wait_before_retry(attempt, deadline).await;
                }
                attempt += 1;
            }
            for (link, source) in loads {
                link.load_script(source, deadline)
                    .await
                    .map_err(|failed| failed.error)?;
            }
        }
    }

    fn group_by_server(&self, batch: &PipelineRun<'_>) -> Result<Vec<PipelineGroup>, AttemptError> {
        let mut groups: Vec<PipelineGroup> = Vec::new();
        for &index in &batch.pending {
            let redirect = batch.redirects.get(&index).cloned();
            let (link, asking) = match self
                .select_target(route_of(&self.deployment, batch.commands[index]), redirect)?
            {
                AttemptTarget::Primary(link) => (link, false),
                AttemptTarget::PrimaryWithAsking(link) => (link, true),
                AttemptTarget::AllPrimaries(..) => {
                    return Err(AttemptError::no_retry(all_primaries_error(
                        batch.commands[index],
                    )));
                }
            };
            match groups
                .iter_mut()
                .find(|group| group.asking == asking && Arc::ptr_eq(&group.link, &link))
            {
                Some(group) => group.indices.push(index),
                None => groups.push(PipelineGroup {
                    link,
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
            let replies = group.link.pipeline(whole, 0, whole.len(), deadline).await;
            return (group, replies);
        }
        let mut pipe = Pipeline::with_capacity(group.indices.len());
        for index in &group.indices {
            if group.asking {
                pipe.cmd("ASKING");
            }
            pipe.add_command(batch.commands[*index].clone());
        }
        let mut replies = group.link.pipeline(&pipe, 0, pipe.len(), deadline).await;
        if let (true, Ok(values)) = (group.asking, &mut replies) {
            let answers = std::mem::take(values).into_iter().skip(1).step_by(2);
            *values = answers.collect();
        }
        (group, replies)
    }

    async fn transaction(
        &self,
        pipe: &Pipeline,
        offset: usize,
        count: usize,
        repeatable: bool,
        deadline: Instant,
    ) -> RedisResult<Vec<Value>> {
        let place = self.common_route(pipe)?;
        let mut redirect = None;
        let mut attempt = 1;
        loop {
            let result = match self.select_target(place, redirect.take()) {
                Ok(AttemptTarget::Primary(link) | AttemptTarget::PrimaryWithAsking(link)) => {
                    link.pipeline(pipe, offset, count, deadline).await
                }
                Ok(AttemptTarget::AllPrimaries(..)) => {
                    unreachable!("the route of a transaction is one server")
                }
                Err(failed) => Err(failed),
            };
            let again = match &result {
                Ok(values) => values.iter().any(proves_not_executed),
                Err(failed) => failed.may_retry(|| repeatable || pipe.cmd_iter().all(is_read_only)),
            };
            if again || result.is_err() {
                self.request_topology_refresh();
            }
            if !again || attempt >= MAX_ATTEMPTS || monotonic() >= deadline {
                return result.map_err(|failed| failed.error);
            }
            // A transaction cannot follow `ASK`, which covers one command only. It waits until the slot has moved.
            redirect = moved_target(&result);
            if redirect.is_none() {
                wait_before_retry(attempt, deadline).await;
            }
            attempt += 1;
        }
    }

    /// The one route of all commands.
    fn common_route(&self, pipe: &Pipeline) -> RedisResult<CommandRoute> {
        let mut common = CommandRoute::AnyPrimary;
        for cmd in pipe.cmd_iter() {
            match (route_of(&self.deployment, cmd), common) {
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
                (place @ CommandRoute::Slot(_), _) => common = place,
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
        repeatable: bool,
        last: bool,
    ) -> RedisResult<Vec<(Arc<PrimaryPool>, &'static str)>> {
        let mut loads = Vec::new();
        let mut again = Vec::new();
        for (group, result) in results {
            match result {
                Ok(values) => {
                    for (index, value) in group.indices.into_iter().zip(values) {
                        let redirect = self.redirects.remove(&index);
                        let missing = script::script_to_load(self.commands[index], &value)
                            .map(LuaScript::source);
                        if let Some(source) = missing.filter(|it| !self.has_loaded(&group.link, it))
                        {
                            loads.push((Arc::clone(&group.link), source));
                            self.redirects.extend(redirect.map(|to| (index, to)));
                            again.push(index);
                        } else if proves_not_executed(&value) && !last {
                            self.redirects
                                .extend(parse_redirection(&value).map(|to| (index, to)));
                            again.push(index);
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
                    if last || !failed.may_retry(|| repeatable || reads()) {
                        return Err(failed.error);
                    }
                    for index in &group.indices {
                        self.redirects.remove(index);
                    }
                    again.extend(group.indices);
                }
            }
        }
        again.sort_unstable();
        self.pending = again;
        loads.sort_by_key(|(link, source)| (Arc::as_ptr(link).addr(), *source));
        loads.dedup_by(|a, b| Arc::ptr_eq(&a.0, &b.0) && a.1 == b.1);
        self.loaded_scripts.extend_from_slice(&loads);
        Ok(loads)
    }

    fn has_loaded(&self, link: &Arc<PrimaryPool>, source: &str) -> bool {
        let same = |(other, loaded): &(Arc<PrimaryPool>, &str)| {
            Arc::ptr_eq(other, link) && *loaded == source
        };
        self.loaded_scripts.iter().any(same)
    }
}

fn moved_target(result: &Result<Vec<Value>, AttemptError>) -> Option<(ServerAddress, bool)> {
    let found = match result {
        Ok(values) => values.iter().find_map(parse_redirection),
        Err(failed) => {
            let errors = failed
                .error
                .clone()
                .into_server_errors()
                .unwrap_or_default();
            errors
                .iter()
                .find_map(|(_, error)| parse_redirection(&Value::ServerError(error.clone())))
        }
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
