//! The epoch of a cluster.
//!
//! A cluster has one epoch. Its origin is the sorted list of the incarnations of all primaries, so the epoch rises when
//! any primary restarts or is replaced. This invalidates cached state of all slots, not only of the failed primary. In
//! exchange every caller compares one number.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Instant;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};

use super::ClusterInner;
use crate::redis_backend::primary_pool::PrimaryPoolOwner;
use crate::redis_backend::server_info::ServerInfo;
use crate::url::ServerAddress;

/// Pool owner of a cluster.
pub(super) struct ClusterPoolOwner {
    core: Weak<ClusterInner>,
    pub(super) incarnations: Mutex<BTreeMap<ServerAddress, String>>,
}

impl ClusterPoolOwner {
    pub(super) fn new(core: Weak<ClusterInner>) -> Self {
        Self {
            core,
            incarnations: Mutex::default(),
        }
    }
}

impl ClusterInner {
    /// Reconciles the epoch with the current incarnations. Uses `connection` if its server holds the epoch key.
    pub(super) async fn reconcile_epoch(
        &self,
        connection: Option<(&ServerAddress, &mut MultiplexedConnection)>,
    ) -> RedisResult<()> {
        if self.shared.epoch.is_read_only() {
            return Ok(());
        }
        let mut reconciled = self.reconciled_origin.lock().await;
        let (Some(origin), Some(epoch_server)) = (
            self.current_origin(),
            self.slot_owner(self.shared.epoch.key().as_bytes()),
        ) else {
            return Ok(());
        };
        let epoch = &self.shared.epoch;
        match connection {
            Some((server, con)) if *server == epoch_server => epoch.reconcile(con, &origin).await?,
            _ if *reconciled == origin => return Ok(()),
            _ => {
                let Some(pool) = self.pools.load().pool_of(&epoch_server).cloned() else {
                    return Ok(());
                };
                let deadline = Instant::now() + self.shared.request_timeout;
                let reply = pool.command(&epoch.reconcile_cmd(&origin), deadline).await;
                let reply = reply
                    .map_err(|failed| failed.error)
                    .and_then(Value::extract_error);
                epoch.apply_reconcile_reply(
                    reply.and_then(|reply| Ok(redis::from_redis_value(reply)?)),
                    &origin,
                )?;
            }
        }
        *reconciled = origin;
        Ok(())
    }

    /// Whether the epoch was reconciled with this incarnation among the primaries. True while the cluster is being
    /// opened, because no caller can have used its data yet.
    async fn is_reconciled_for(&self, origin: &str) -> bool {
        let reconciled = self.reconciled_origin.lock().await;
        reconciled.is_empty() || reconciled.split(',').any(|reconciled| reconciled == origin)
    }

    /// Origin: the incarnations of all primaries. `None` if one of them is not known.
    fn current_origin(&self) -> Option<String> {
        let cluster = self.pools.load();
        let incarnations = self.pool_owner.incarnations.lock();
        let all = cluster
            .topology
            .primaries
            .iter()
            .map(|primary| incarnations.get(primary).cloned());
        let mut all = all.collect::<Option<Vec<_>>>()?;
        all.sort_unstable();
        (!all.is_empty()).then(|| all.join(","))
    }
}

impl PrimaryPoolOwner for ClusterPoolOwner {
    fn prepare_connection<'a>(
        &'a self,
        server: &'a ServerAddress,
        info: &'a ServerInfo,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>> {
        Box::pin(async move {
            let origin = info.incarnation_or_random();
            self.incarnations
                .lock()
                .insert(server.clone(), origin.clone());
            let Some(core) = self.core.upgrade() else {
                return Ok(());
            };
            let reconciled = core.reconcile_epoch(Some((server, con))).await;
            let reason = match reconciled {
                Err(error) if self.is_epoch_server(server) => return Err(error),
                Err(error) => error.to_string(),
                Ok(()) if core.is_reconciled_for(&origin).await => return Ok(()),
                Ok(()) => "not all primaries are known yet".to_owned(),
            };
            // The server that holds the epoch cannot be reached, or not all primaries are known. The new connection is
            // used all the same: the epoch rises on this node only, and the topology task reconciles it with the store
            // later.
            core.shared.epoch.raise_locally(&origin, &reason);
            Ok(())
        })
    }

    fn on_connection_lost(&self, _server: &ServerAddress) {
        if let Some(core) = self.core.upgrade() {
            core.refresh_requested.notify_one();
        }
    }

    fn is_epoch_server(&self, server: &ServerAddress) -> bool {
        let core = self.core.upgrade();
        core.is_some_and(|core| {
            core.slot_owner(core.shared.epoch.key().as_bytes()).as_ref() == Some(server)
        })
    }
}
