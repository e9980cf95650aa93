//! Opens a Redis store, and explains why one cannot be opened.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult};

use super::cluster::{self, ClusterBackend};
use super::connector::ServerConnector;
use super::primary_pool::{PrimaryPool, PrimaryPoolOwner, PrimaryPoolTarget};
use super::sentinel::SentinelResolver;
use super::server_info::ServerInfo;
use super::{RedisBackend, RedisDeployment};
use crate::health::StoreShared;
use crate::options::{StoreOpenError, StoreOptions};
use crate::url::{ServerAddress, StoreUrl};

impl RedisBackend {
    pub(crate) async fn open(
        options: &StoreOptions,
        shared: Arc<StoreShared>,
    ) -> Result<Self, StoreOpenError> {
        let (tls, credentials, database) = match &options.url {
            StoreUrl::Redis {
                tls,
                credentials,
                database,
                ..
            }
            | StoreUrl::Sentinel {
                tls,
                credentials,
                database,
                ..
            } => (*tls, credentials, *database),
            StoreUrl::Cluster {
                tls, credentials, ..
            } => (*tls, credentials, 0),
            StoreUrl::Embedded => unreachable!("the embedded engine is opened elsewhere"),
        };
        let connector = ServerConnector::new(options, tls, credentials, database)?;
        let deployment = Self::open_deployment(options, &connector, &shared)
            .await
            .map_err(|error| open_error(options, error))?;
        let redis = Self {
            shared,
            connector,
            deployment,
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
        connector: &ServerConnector,
        shared: &Arc<StoreShared>,
    ) -> RedisResult<RedisDeployment> {
        let target = match &options.url {
            StoreUrl::Cluster { seeds, .. } => {
                let cluster =
                    ClusterBackend::open(connector.clone(), Arc::clone(shared), seeds.clone())
                        .await?;
                return Ok(RedisDeployment::Cluster(cluster));
            }
            StoreUrl::Sentinel {
                sentinels,
                primary_name,
                ..
            } => PrimaryPoolTarget::Sentinel(SentinelResolver::new(
                connector,
                sentinels.clone(),
                primary_name.clone(),
            )),
            StoreUrl::Redis { server, .. } => PrimaryPoolTarget::Address(server.clone()),
            StoreUrl::Embedded => unreachable!("the embedded engine is opened elsewhere"),
        };
        let owner = Arc::new(StandalonePoolOwner {
            shared: Arc::clone(shared),
        });
        let pool = PrimaryPool::open(target, connector.clone(), Arc::clone(shared), owner).await?;
        Ok(RedisDeployment::Single(Arc::new(pool)))
    }

    /// Sets the clock. From then on the heartbeat to the epoch server adjusts it.
    async fn sync_clock(&self) -> RedisResult<()> {
        let pool = match &self.deployment {
            RedisDeployment::Single(pool) => Arc::clone(pool),
            RedisDeployment::Cluster(cluster) => {
                let slot = cluster::routing::key_hash_slot(self.shared.epoch.key().as_bytes());
                cluster.pool_for_slot(slot).map_err(|failed| failed.error)?
            }
        };
        let sent_at = Instant::now();
        let deadline = sent_at + self.connector.connect_timeout();
        let reply = pool
            .command(&redis::cmd("TIME"), deadline)
            .await
            .map_err(|failed| failed.error)?;
        self.shared
            .clock
            .adjust_to_time_reply(reply, Instant::now().duration_since(sent_at));
        Ok(())
    }

    fn reject_cluster_node(&self, options: &StoreOptions) -> Result<(), StoreOpenError> {
        if let RedisDeployment::Single(pool) = &self.deployment
            && pool
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
        info: &'a ServerInfo,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>> {
        Box::pin(async move {
            let origin = info.incarnation_or_random();
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
        _ if crate::classify_error(&error) == crate::StoreErrorClass::Rejected => {
            StoreOpenError::Misconfigured { url, reason: text }
        }
        _ => StoreOpenError::Unreachable { url, source: error },
    }
}
