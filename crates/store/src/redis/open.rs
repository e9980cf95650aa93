//! Opens a Redis store, and explains why one cannot be opened.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult};

use super::cluster::{self, ClusterBackend};
use super::connect::{ServerConnector, ServerInfo};
use super::link::{PrimaryPool, PrimaryPoolOwner, PrimaryPoolTarget};
use super::sentinel::SentinelResolver;
use super::{Redis, RedisDeployment, random_incarnation};
use crate::clock::monotonic;
use crate::options::{StoreOpenError, StoreOptions};
use crate::shared::StoreShared;
use crate::url::{ServerAddress, StoreUrl};

impl Redis {
    pub(crate) async fn open(
        options: &StoreOptions,
        shared: Arc<StoreShared>,
    ) -> Result<Self, StoreOpenError> {
        let (tls, login, database) = match &options.url {
            StoreUrl::Redis {
                tls,
                login,
                database,
                ..
            }
            | StoreUrl::Sentinel {
                tls,
                login,
                database,
                ..
            } => (*tls, login, *database),
            StoreUrl::Cluster { tls, login, .. } => (*tls, login, 0),
            StoreUrl::Embedded => unreachable!("the embedded engine is opened elsewhere"),
        };
        let dialer = ServerConnector::new(options, tls, login, database)?;
        let routes = Self::open_deployment(options, &dialer, &shared)
            .await
            .map_err(|error| open_error(options, error))?;
        let redis = Self {
            shared,
            dialer,
            deployment: routes,
        };
        redis.reject_cluster_node(options)?;
        redis
            .sync_clock()
            .await
            .map_err(|error| open_error(options, error))?;
        Ok(redis)
    }

    async fn open_deployment(
        options: &StoreOptions,
        dialer: &ServerConnector,
        shared: &Arc<StoreShared>,
    ) -> RedisResult<RedisDeployment> {
        let target = match &options.url {
            StoreUrl::Cluster { seeds, .. } => {
                let cluster =
                    ClusterBackend::open(dialer.clone(), Arc::clone(shared), seeds.clone()).await?;
                return Ok(RedisDeployment::Cluster(cluster));
            }
            StoreUrl::Sentinel {
                sentinels,
                primary_name: primary,
                ..
            } => PrimaryPoolTarget::Sentinel(SentinelResolver::new(
                dialer,
                sentinels.clone(),
                primary.clone(),
            )),
            StoreUrl::Redis { server, .. } => PrimaryPoolTarget::Address(server.clone()),
            StoreUrl::Embedded => unreachable!("the embedded engine is opened elsewhere"),
        };
        let host = Arc::new(StandalonePoolOwner {
            shared: Arc::clone(shared),
        });
        let link = PrimaryPool::open(target, dialer.clone(), Arc::clone(shared), host).await?;
        Ok(RedisDeployment::Single(Arc::new(link)))
    }

    /// Sets the clock. From then on the heartbeat to the epoch server adjusts it.
    async fn sync_clock(&self) -> RedisResult<()> {
        let link = match &self.deployment {
            RedisDeployment::Single(link) => Arc::clone(link),
            RedisDeployment::Cluster(cluster) => {
                let slot = cluster::slots::slot(self.shared.epoch.key().as_bytes());
                cluster.pool_for_slot(slot).map_err(|failed| failed.error)?
            }
        };
        let asked = monotonic();
        let deadline = asked + self.dialer.connect_timeout();
        let reply = link
            .command(&redis::cmd("TIME"), deadline)
            .await
            .map_err(|failed| failed.error)?;
        self.shared
            .clock
            .adjust_to_time_reply(reply, monotonic().duration_since(asked));
        Ok(())
    }

    fn reject_cluster_node(&self, options: &StoreOptions) -> Result<(), StoreOpenError> {
        if let RedisDeployment::Single(link) = &self.deployment
            && link
                .primary()
                .borrow()
                .as_ref()
                .is_some_and(|conn| conn.info.is_cluster_node)
        {
            return Err(StoreOpenError::Misconfigured {
                url: options.url.to_string(),
                reason: "it is a node of a Cluster: write `redis+cluster://` instead".to_owned(),
            });
        }
        Ok(())
    }
}

/// Pool owner of a single primary.
struct StandalonePoolOwner {
    shared: Arc<StoreShared>,
}

impl PrimaryPoolOwner for StandalonePoolOwner {
    fn prepare_connection<'a>(
        &'a self,
        _server: &'a ServerAddress,
        identity: &'a ServerInfo,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>> {
        Box::pin(async move {
            let origin = identity
                .incarnation
                .clone()
                .unwrap_or_else(random_incarnation);
            self.shared.epoch.reconcile(con, &origin).await
        })
    }
}

/// Builds the error that the user reads.
fn open_error(options: &StoreOptions, error: RedisError) -> StoreOpenError {
    let url = options.url.to_string();
    let text = error.to_string();
    let code = error.code().unwrap_or_default().to_owned();
    if error.kind() == ErrorKind::AuthenticationFailed
        || ["NOAUTH", "WRONGPASS", "NOPERM"].contains(&code.as_str())
    {
        return StoreOpenError::AuthenticationFailed { url, source: error };
    }
    if text.contains("cluster support disabled") {
        let reason = "it is not a Cluster: write `redis://` instead".to_owned();
        return StoreOpenError::Misconfigured { url, reason };
    }
    if code == "MOVED" {
        let reason = "it is a node of a Cluster: write `redis+cluster://` instead".to_owned();
        return StoreOpenError::Misconfigured { url, reason };
    }
    match error.kind() {
        ErrorKind::Client
        | ErrorKind::InvalidClientConfig
        | ErrorKind::MasterNameNotFoundBySentinel => StoreOpenError::Misconfigured {
            url,
            reason: error.detail().map_or(text, str::to_owned),
        },
        _ if crate::fault(&error) == crate::Fault::Rejected => {
            StoreOpenError::Misconfigured { url, reason: text }
        }
        _ => StoreOpenError::Unreachable { url, source: error },
    }
}
