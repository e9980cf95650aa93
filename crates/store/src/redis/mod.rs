//! The Redis engine: standalone, Sentinel and Cluster behind one way to send a request.
//!
//! Always true:
//! 1. A request ends within [`Options::timeout`](crate::Options::timeout), all its tries together.
//! 2. It is executed at most once, unless it only reads or the caller declared it repeatable.

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

use self::cluster::Cluster;
use self::cluster::slots::{Place, place};
use self::connect::Dialer;
use self::link::Link;
use self::retry::{Failed, TRIES, back_off, nothing_executed, only_reads};
use crate::clock::monotonic;
use crate::script;
use crate::shared::Shared;
use crate::url::Address;

/// An open Redis store.
pub(crate) struct Redis {
    shared: Arc<Shared>,
    dialer: Dialer,
    routes: Routes,
}

enum Routes {
    One(Arc<Link>),
    Cluster(Cluster),
}

/// Where one try goes.
enum Route {
    One(Arc<Link>),
    /// To a node that takes over the slot, key by key.
    Asking(Arc<Link>),
    All(Vec<Arc<Link>>, cluster::slots::Reduce),
}

impl Redis {
    /// One command, tried as often as it may be.
    pub(crate) async fn command(&self, cmd: &Cmd, repeatable: bool) -> RedisResult<Value> {
        let deadline = monotonic() + self.shared.timeout;
        let place = place_of(&self.routes, cmd);
        let harmless = || repeatable || only_reads(cmd);
        let mut redirect = None;
        let mut attempt = 1;
        loop {
            let reply = self.try_command(cmd, place, redirect.take(), deadline);
            let reply = reply.await;
            let again = match &reply {
                // What one server refused, the others may have executed.
                Ok(reply) => nothing_executed(reply) && (!place.is_all() || harmless()),
                Err(_) if place.is_all() && !harmless() => false,
                Err(failed) => failed.may_repeat(harmless),
            };
            let done = !again || attempt >= TRIES || monotonic() >= deadline;
            if again || reply.is_err() {
                self.doubt();
            }
            if done {
                return reply.map_err(|failed| failed.error);
            }
            redirect = reply.as_ref().ok().and_then(cluster::topology::redirection);
            if redirect.is_none() {
                pause(attempt, deadline).await;
            }
            attempt += 1;
        }
    }

    async fn try_command(
        &self,
        cmd: &Cmd,
        place: Place,
        redirect: Option<(Address, bool)>,
        deadline: Instant,
    ) -> Result<Value, Failed> {
        let (link, asking) = match self.route(place, redirect)? {
            Route::All(links, reduce) => {
                let all = links.iter().map(|link| link.command(cmd, deadline));
                return Ok(reduce.apply(try_join_all(all).await?));
            }
            Route::Asking(link) => (link, true),
            Route::One(link) => (link, false),
        };
        let reply = send(&link, asking, cmd, deadline).await?;
        match script::missing(cmd, &reply) {
            Some(missing) => {
                link.load(missing.source(), deadline).await?;
                send(&link, asking, cmd, deadline).await
            }
            None => Ok(reply),
        }
    }

    fn route(&self, place: Place, redirect: Option<(Address, bool)>) -> Result<Route, Failed> {
        let cluster = match &self.routes {
            Routes::One(link) => return Ok(Route::One(Arc::clone(link))),
            Routes::Cluster(cluster) => cluster,
        };
        match (redirect, place) {
            (Some((node, true)), _) => Ok(Route::Asking(cluster.by_address(&node))),
            (Some((node, false)), _) => Ok(Route::One(cluster.by_address(&node))),
            (None, Place::All(reduce)) => Ok(Route::All(cluster.links(), reduce)),
            (None, place) => cluster.by_place(place).map(Route::One),
        }
    }

    fn doubt(&self) {
        if let Routes::Cluster(cluster) = &self.routes {
            cluster.doubt();
        }
    }

    /// One command on each primary, tried once: its address and its reply.
    pub(crate) async fn each_primary(&self, cmd: &Cmd) -> Vec<(String, RedisResult<Value>)> {
        let deadline = monotonic() + self.shared.timeout;
        let asked = self.links().into_iter().map(|link| async move {
            let reply = link.command(cmd, deadline).await;
            let reply = reply.map_err(|failed| failed.error);
            (link.server(), reply.and_then(Value::extract_error))
        });
        join_all(asked).await
    }

    /// The links to all primaries.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        match &self.routes {
            Routes::One(link) => vec![Arc::clone(link)],
            Routes::Cluster(cluster) => cluster.links(),
        }
    }

    pub(crate) fn cluster(&self) -> Option<&Arc<cluster::Core>> {
        match &self.routes {
            Routes::One(_) => None,
            Routes::Cluster(cluster) => Some(cluster.core()),
        }
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Ends all connections.
    pub(crate) fn close(&self) {
        if let Routes::Cluster(cluster) = &self.routes {
            cluster.close();
        }
        self.links().iter().for_each(|link| link.close());
    }
}

/// A command on one server, which may have to be asked for a slot that it does not own yet.
async fn send(link: &Link, asking: bool, cmd: &Cmd, deadline: Instant) -> Result<Value, Failed> {
    if !asking {
        return link.command(cmd, deadline).await;
    }
    let mut pipe = redis::pipe();
    pipe.cmd("ASKING").add_command(cmd.clone());
    let mut replies = link.pipeline(&pipe, 0, 2, deadline).await?;
    Ok(replies.pop().unwrap_or(Value::Nil))
}

fn place_of(routes: &Routes, cmd: &Cmd) -> Place {
    match routes {
        Routes::One(_) => Place::Any,
        Routes::Cluster(_) => place(cmd),
    }
}

/// Waits before the next try, not beyond the deadline.
async fn pause(attempt: u32, deadline: Instant) {
    let until = (monotonic() + back_off(attempt)).min(deadline);
    tokio::time::sleep_until(until.into()).await;
}

/// An origin for a server that does not tell: every connection to it could lead to another process.
pub(crate) fn unknown_origin() -> String {
    format!("unknown:{:016x}", rand::random::<u64>())
}
