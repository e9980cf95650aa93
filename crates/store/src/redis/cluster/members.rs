//! The servers behind a cluster's links, and the epoch they share.
//!
//! One epoch for the whole cluster: its origin is the set of all primaries' processes, so a change of any one of them
//! makes the state of all cold. That is more re-checking than needed after the failover of one primary, and one number
//! for everybody to compare.

use std::collections::BTreeMap;
use std::sync::Weak;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};

use super::Core;
use crate::clock::monotonic;
use crate::redis::connect::Identity;
use crate::redis::link::Host;
use crate::redis::unknown_origin;
use crate::url::Address;

/// The servers behind the links, for the epoch.
pub(super) struct Members {
    core: Weak<Core>,
    pub(super) origins: Mutex<BTreeMap<Address, String>>,
}

impl Members {
    pub(super) fn new(core: Weak<Core>) -> Self {
        Self {
            core,
            origins: Mutex::default(),
        }
    }
}

impl Core {
    /// Settles the epoch for the servers as they are now; on `here` if the epoch lives there.
    pub(super) async fn settle(
        &self,
        here: Option<(&Address, &mut MultiplexedConnection)>,
    ) -> RedisResult<()> {
        if self.shared.epoch.is_read_only() {
            return Ok(());
        }
        let mut settled = self.settled.lock().await;
        let (Some(origin), Some(leader)) = (
            self.origin(),
            self.owner(self.shared.epoch.key().as_bytes()),
        ) else {
            return Ok(());
        };
        let epoch = &self.shared.epoch;
        match here {
            Some((server, con)) if *server == leader => epoch.settle(con, &origin).await?,
            _ if *settled == origin => return Ok(()),
            _ => {
                let map = self.map.load_full();
                let Some(index) = map
                    .topology
                    .primaries
                    .iter()
                    .position(|primary| *primary == leader)
                else {
                    return Ok(());
                };
                let deadline = monotonic() + self.shared.timeout;
                let reply = map.links[index]
                    .command(&epoch.settle_cmd(&origin), deadline)
                    .await;
                let reply = reply
                    .map_err(|failed| failed.error)
                    .and_then(Value::extract_error);
                epoch.settled(
                    reply.and_then(|reply| Ok(redis::from_redis_value(reply)?)),
                    &origin,
                )?;
            }
        }
        *settled = origin;
        Ok(())
    }

    /// Whether the epoch was settled with this process among the primaries. While the cluster is being opened nobody
    /// can have used what it holds.
    async fn is_settled_for(&self, origin: &str) -> bool {
        let settled = self.settled.lock().await;
        settled.is_empty() || settled.split(',').any(|settled| settled == origin)
    }

    /// The processes of all primaries; none as long as one is not known.
    fn origin(&self) -> Option<String> {
        let map = self.map.load();
        let origins = self.host.origins.lock();
        let all = map
            .topology
            .primaries
            .iter()
            .map(|primary| origins.get(primary).cloned());
        let mut all = all.collect::<Option<Vec<_>>>()?;
        all.sort_unstable();
        (!all.is_empty()).then(|| all.join(","))
    }
}

impl Host for Members {
    fn admit<'a>(
        &'a self,
        server: &'a Address,
        identity: &'a Identity,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>> {
        Box::pin(async move {
            let origin = identity.origin.clone().unwrap_or_else(unknown_origin);
            self.origins.lock().insert(server.clone(), origin.clone());
            let Some(core) = self.core.upgrade() else {
                return Ok(());
            };
            let settled = core.settle(Some((server, con))).await;
            let reason = match settled {
                Err(error) if self.leads(server) => return Err(error),
                Err(error) => error.to_string(),
                Ok(()) if core.is_settled_for(&origin).await => return Ok(()),
                Ok(()) => "not all primaries are known yet".to_owned(),
            };
            // The others' trouble is no reason to keep this server out; the keeper settles again.
            core.shared.epoch.raise_here(&origin, &reason);
            Ok(())
        })
    }

    fn lost(&self, _server: &Address) {
        if let Some(core) = self.core.upgrade() {
            core.doubt.notify_one();
        }
    }

    fn leads(&self, server: &Address) -> bool {
        let core = self.core.upgrade();
        core.is_some_and(|core| {
            core.owner(core.shared.epoch.key().as_bytes()).as_ref() == Some(server)
        })
    }
}
