//! Opening a Redis store, and saying why it cannot be opened.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisError, RedisResult};

use super::cluster::{self, Cluster};
use super::connect::{Dialer, Identity};
use super::link::{Host, Link, Target};
use super::sentinel::Sentinel;
use super::{Redis, Routes, unknown_origin};
use crate::clock::monotonic;
use crate::options::{OpenError, Options};
use crate::shared::Shared;
use crate::url::{Address, StoreUrl};

impl Redis {
    pub(crate) async fn open(options: &Options, shared: Arc<Shared>) -> Result<Self, OpenError> {
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
        let dialer = Dialer::new(options, tls, login, database)?;
        let routes = Self::connect(options, &dialer, &shared)
            .await
            .map_err(|error| refusal(options, error))?;
        let redis = Self {
            shared,
            dialer,
            routes,
        };
        redis.check_kind(options)?;
        redis
            .read_time()
            .await
            .map_err(|error| refusal(options, error))?;
        Ok(redis)
    }

    async fn connect(
        options: &Options,
        dialer: &Dialer,
        shared: &Arc<Shared>,
    ) -> RedisResult<Routes> {
        let target = match &options.url {
            StoreUrl::Cluster { seeds, .. } => {
                let cluster =
                    Cluster::open(dialer.clone(), Arc::clone(shared), seeds.clone()).await?;
                return Ok(Routes::Cluster(cluster));
            }
            StoreUrl::Sentinel {
                sentinels, primary, ..
            } => Target::Sentinel(Sentinel::new(dialer, sentinels.clone(), primary.clone())),
            StoreUrl::Redis { server, .. } => Target::Server(server.clone()),
            StoreUrl::Embedded => unreachable!("the embedded engine is opened elsewhere"),
        };
        let host = Arc::new(Alone {
            shared: Arc::clone(shared),
        });
        let link = Link::open(target, dialer.clone(), Arc::clone(shared), host).await?;
        Ok(Routes::One(Arc::new(link)))
    }

    /// Sets the clock; from then on the supervisor of the leading server follows it.
    async fn read_time(&self) -> RedisResult<()> {
        let link = match &self.routes {
            Routes::One(link) => Arc::clone(link),
            Routes::Cluster(cluster) => {
                let slot = cluster::slots::slot(self.shared.epoch.key().as_bytes());
                cluster.by_slot(slot).map_err(|failed| failed.error)?
            }
        };
        let asked = monotonic();
        let deadline = asked + self.dialer.patience();
        let reply = link
            .command(&redis::cmd("TIME"), deadline)
            .await
            .map_err(|failed| failed.error)?;
        self.shared
            .clock
            .follow_reply(reply, monotonic().duration_since(asked));
        Ok(())
    }

    fn check_kind(&self, options: &Options) -> Result<(), OpenError> {
        if let Routes::One(link) = &self.routes
            && link
                .primary()
                .borrow()
                .as_ref()
                .is_some_and(|conn| conn.identity.cluster)
        {
            return Err(OpenError::Unfit {
                url: options.url.to_string(),
                reason: "it is a node of a Cluster: write `redis+cluster://` instead".to_owned(),
            });
        }
        Ok(())
    }
}

/// The host of a single link.
struct Alone {
    shared: Arc<Shared>,
}

impl Host for Alone {
    fn admit<'a>(
        &'a self,
        _server: &'a Address,
        identity: &'a Identity,
        con: &'a mut MultiplexedConnection,
    ) -> BoxFuture<'a, RedisResult<()>> {
        Box::pin(async move {
            let origin = identity.origin.clone().unwrap_or_else(unknown_origin);
            self.shared.epoch.settle(con, &origin).await
        })
    }
}

/// Why the store was not opened, for people.
fn refusal(options: &Options, error: RedisError) -> OpenError {
    let url = options.url.to_string();
    let text = error.to_string();
    let code = error.code().unwrap_or_default().to_owned();
    if error.kind() == ErrorKind::AuthenticationFailed
        || ["NOAUTH", "WRONGPASS", "NOPERM"].contains(&code.as_str())
    {
        return OpenError::Login { url, source: error };
    }
    if text.contains("cluster support disabled") {
        let reason = "it is not a Cluster: write `redis://` instead".to_owned();
        return OpenError::Unfit { url, reason };
    }
    if code == "MOVED" {
        let reason = "it is a node of a Cluster: write `redis+cluster://` instead".to_owned();
        return OpenError::Unfit { url, reason };
    }
    match error.kind() {
        ErrorKind::Client
        | ErrorKind::InvalidClientConfig
        | ErrorKind::MasterNameNotFoundBySentinel => OpenError::Unfit {
            url,
            reason: error.detail().map_or(text, str::to_owned),
        },
        _ if crate::fault(&error) == crate::Fault::Refused => {
            OpenError::Unfit { url, reason: text }
        }
        _ => OpenError::Away { url, source: error },
    }
}
