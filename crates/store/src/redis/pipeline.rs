//! Pipelines: split by server, sent side by side, put together in order.
//!
//! Always true:
//! 1. Commands for one server keep their order, but for those that are sent again. A pipeline without `atomic()` may
//!    span slots on a Cluster.
//! 2. Only commands that were not executed are sent again (see `retry`), each by itself: one that met `NOSCRIPT`, a
//!    redirection or an unready server does not make the others run twice.
//! 3. A transaction is sent again only as a whole, and only when none of it was executed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};

use super::cluster::slots::Place;
use super::cluster::topology::redirection;
use super::link::Link;
use super::retry::{Failed, TRIES, nothing_executed, only_reads};
use super::{Redis, Route, pause, place_of};
use crate::clock::monotonic;
use crate::script::{self, Script};
use crate::url::Address;

/// Commands that go to one server together.
struct Group {
    link: Arc<Link>,
    asking: bool,
    /// Positions in the pipeline.
    indices: Vec<usize>,
}

/// A pipeline on its way.
struct Batch<'a> {
    cmds: Vec<&'a Cmd>,
    replies: Vec<Option<Value>>,
    /// Positions that have to be sent (again), and where a redirection sent them.
    todo: Vec<usize>,
    redirects: HashMap<usize, (Address, bool)>,
    /// Scripts that were loaded on the way, each once per server.
    loaded: Vec<(Arc<Link>, &'static str)>,
}

impl Redis {
    /// A pipeline, tried as often as it may be.
    pub(crate) async fn pipeline(
        &self,
        pipe: &Pipeline,
        offset: usize,
        count: usize,
        repeatable: bool,
    ) -> RedisResult<Vec<Value>> {
        let deadline = monotonic() + self.shared.timeout;
        if pipe.is_transaction() {
            let inlined = script::inline_all(pipe);
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
        let mut batch = Batch {
            replies: vec![None; cmds.len()],
            todo: (0..cmds.len()).collect(),
            cmds,
            redirects: HashMap::new(),
            loaded: Vec::new(),
        };
        let mut attempt = 1;
        loop {
            let groups = match self.groups(&batch) {
                Ok(groups) => groups,
                Err(failed) if attempt < TRIES && failed.may_repeat(|| repeatable) => {
                    pause(attempt, deadline).await;
                    attempt += 1;
                    continue;
                }
                Err(failed) => return Err(failed.error),
            };
            let tries = groups
                .into_iter()
                .map(|group| self.try_group(pipe, &batch, group, deadline));
            let results = join_all(tries).await;
            let last = attempt >= TRIES || monotonic() >= deadline;
            let loads = batch.take(results, repeatable, last)?;
            if batch.todo.is_empty() {
                return Ok(batch
                    .replies
                    .into_iter()
                    .map(|reply| reply.unwrap_or(Value::Nil))
                    .collect());
            }
            if loads.is_empty() {
                self.doubt();
                if batch.redirects.is_empty() {
                    pause(attempt, deadline).await;
                }
                attempt += 1;
            }
            for (link, source) in loads {
                link.load(source, deadline)
                    .await
                    .map_err(|failed| failed.error)?;
            }
        }
    }

    fn groups(&self, batch: &Batch<'_>) -> Result<Vec<Group>, Failed> {
        let mut groups: Vec<Group> = Vec::new();
        for &index in &batch.todo {
            let redirect = batch.redirects.get(&index).cloned();
            let (link, asking) =
                match self.route(place_of(&self.routes, batch.cmds[index]), redirect)? {
                    Route::One(link) => (link, false),
                    Route::Asking(link) => (link, true),
                    Route::All(..) => return Err(Failed::refused(everywhere(batch.cmds[index]))),
                };
            match groups
                .iter_mut()
                .find(|group| group.asking == asking && Arc::ptr_eq(&group.link, &link))
            {
                Some(group) => group.indices.push(index),
                None => groups.push(Group {
                    link,
                    asking,
                    indices: vec![index],
                }),
            }
        }
        Ok(groups)
    }

    async fn try_group(
        &self,
        whole: &Pipeline,
        batch: &Batch<'_>,
        group: Group,
        deadline: Instant,
    ) -> (Group, Result<Vec<Value>, Failed>) {
        if group.indices.len() == whole.len() && !group.asking {
            let replies = group.link.pipeline(whole, 0, whole.len(), deadline).await;
            return (group, replies);
        }
        let mut pipe = Pipeline::with_capacity(group.indices.len());
        for index in &group.indices {
            if group.asking {
                pipe.cmd("ASKING");
            }
            pipe.add_command(batch.cmds[*index].clone());
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
        let place = self.common_place(pipe)?;
        let mut redirect = None;
        let mut attempt = 1;
        loop {
            let result = match self.route(place, redirect.take()) {
                Ok(Route::One(link) | Route::Asking(link)) => {
                    link.pipeline(pipe, offset, count, deadline).await
                }
                Ok(Route::All(..)) => unreachable!("the place of a transaction is one server"),
                Err(failed) => Err(failed),
            };
            let again = match &result {
                Ok(values) => values.iter().any(nothing_executed),
                Err(failed) => failed.may_repeat(|| repeatable || pipe.cmd_iter().all(only_reads)),
            };
            if again || result.is_err() {
                self.doubt();
            }
            if !again || attempt >= TRIES || monotonic() >= deadline {
                return result.map_err(|failed| failed.error);
            }
            // A transaction cannot follow `ASK`: that covers one command. It waits until the slot has moved.
            redirect = moved(&result);
            if redirect.is_none() {
                pause(attempt, deadline).await;
            }
            attempt += 1;
        }
    }

    /// The one place of all commands.
    fn common_place(&self, pipe: &Pipeline) -> RedisResult<Place> {
        let mut common = Place::Any;
        for cmd in pipe.cmd_iter() {
            match (place_of(&self.routes, cmd), common) {
                (Place::All(_), _) => return Err(everywhere(cmd)),
                (Place::Slot(slot), Place::Slot(other)) if slot != other => {
                    let detail = "give the keys of a transaction one hash tag".to_owned();
                    return Err((
                        redis::ServerErrorKind::CrossSlot.into(),
                        "keys of two slots",
                        detail,
                    )
                        .into());
                }
                (place @ Place::Slot(_), _) => common = place,
                (Place::Any, _) => {}
            }
        }
        Ok(common)
    }
}

impl Batch<'_> {
    /// Sorts the replies into done and to do again; returns the scripts that have to be loaded first.
    fn take(
        &mut self,
        results: Vec<(Group, Result<Vec<Value>, Failed>)>,
        repeatable: bool,
        last: bool,
    ) -> RedisResult<Vec<(Arc<Link>, &'static str)>> {
        let mut loads = Vec::new();
        let mut again = Vec::new();
        for (group, result) in results {
            match result {
                Ok(values) => {
                    for (index, value) in group.indices.into_iter().zip(values) {
                        let redirect = self.redirects.remove(&index);
                        let missing = script::missing(self.cmds[index], &value).map(Script::source);
                        if let Some(source) = missing.filter(|it| !self.has(&group.link, it)) {
                            loads.push((Arc::clone(&group.link), source));
                            self.redirects.extend(redirect.map(|to| (index, to)));
                            again.push(index);
                        } else if nothing_executed(&value) && !last {
                            self.redirects
                                .extend(redirection(&value).map(|to| (index, to)));
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
                            .all(|index| only_reads(self.cmds[*index]))
                    };
                    if last || !failed.may_repeat(|| repeatable || reads()) {
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
        self.todo = again;
        loads.sort_by_key(|(link, source)| (Arc::as_ptr(link).addr(), *source));
        loads.dedup_by(|a, b| Arc::ptr_eq(&a.0, &b.0) && a.1 == b.1);
        self.loaded.extend_from_slice(&loads);
        Ok(loads)
    }

    fn has(&self, link: &Arc<Link>, source: &str) -> bool {
        let same =
            |(other, loaded): &(Arc<Link>, &str)| Arc::ptr_eq(other, link) && *loaded == source;
        self.loaded.iter().any(same)
    }
}

fn moved(result: &Result<Vec<Value>, Failed>) -> Option<(Address, bool)> {
    let found = match result {
        Ok(values) => values.iter().find_map(redirection),
        Err(failed) => {
            let errors = failed
                .error
                .clone()
                .into_server_errors()
                .unwrap_or_default();
            errors
                .iter()
                .find_map(|(_, error)| redirection(&Value::ServerError(error.clone())))
        }
    };
    found.filter(|(_, asking)| !asking)
}

fn everywhere(cmd: &Cmd) -> RedisError {
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
