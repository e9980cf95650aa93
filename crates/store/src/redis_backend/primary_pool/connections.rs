//! The connections of a pool: establish, install and discard them.
//!
//! Invariants:
//! 1. A connection is installed only after its server was recognised as a primary, the configured scripts are loaded on
//!    it, and the epoch is reconciled for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, Pipeline, RedisError, RedisResult};
use tokio::sync::Notify;

use super::{PrimaryPoolInner, PrimaryPoolTarget};
use crate::redis_backend::connector::timeout_error;
use crate::redis_backend::server_info::ServerInfo;
use crate::script;
use crate::telemetry;
use crate::url::ServerAddress;

/// Holder of one connection.
#[derive(Default)]
pub(crate) struct ConnectionHolder {
    pub(super) connection: ArcSwapOption<ServerConnection>,
    /// Wakes the supervisor: the connection was discarded, or a request on it timed out.
    pub(crate) wake_supervisor: Notify,
}

pub(crate) struct ServerConnection {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) server: ServerAddress,
    pub(crate) info: ServerInfo,
}

impl PrimaryPoolInner {
    /// Establishes a connection to the primary, ready to be installed.
    pub(crate) async fn connect(&self) -> RedisResult<ServerConnection> {
        // Finding the primary, the TCP and TLS handshake, and the first requests each get one connect timeout.
        let timeout = self.connector.connect_timeout() * 3;
        let connect = tokio::time::timeout(timeout, self.connect_without_timeout()).await;
        let connect = connect.unwrap_or_else(|_| Err(timeout_error("could not connect in time")));
        if let (Err(_), PrimaryPoolTarget::Sentinel(sentinel)) = (&connect, &self.target) {
            sentinel.rotate_sentinels();
        }
        connect
    }

    async fn connect_without_timeout(&self) -> RedisResult<ServerConnection> {
        let server = match &self.target {
            PrimaryPoolTarget::Address(server) => server.clone(),
            PrimaryPoolTarget::Sentinel(sentinel) => sentinel.resolve_primary().await?,
        };
        let mut con = self.connector.connect(&server).await?;
        let (info, denied) = ServerInfo::fetch(&mut con).await?;
        if let Some(reason) = denied {
            telemetry::server_info_denied(&self.label, &reason);
        }
        if info.is_replica {
            let detail = format!("{server} is a replica: give the address of its primary");
            return Err(RedisError::from((
                ErrorKind::Client,
                "not a primary",
                detail,
            )));
        }
        self.load_scripts(&mut con).await?;
        self.owner
            .prepare_connection(&server, &info, &mut con)
            .await?;
        Ok(ServerConnection {
            connection: con,
            server,
            info,
        })
    }

    async fn load_scripts(&self, con: &mut MultiplexedConnection) -> RedisResult<()> {
        if self.shared.scripts.is_empty() {
            return Ok(());
        }
        let mut pipe = Pipeline::with_capacity(self.shared.scripts.len());
        for script in &self.shared.scripts {
            // `sha()` registers the source, which is needed after a `NOSCRIPT`.
            script.sha();
            pipe.add_command(script::script_load_cmd(script.source()));
        }
        pipe.exec_async(con).await
    }

    pub(crate) fn install_connection(&self, holder_index: usize, conn: ServerConnection) {
        let conn = Arc::new(conn);
        telemetry::connected(&conn.server, &conn.info.version);
        self.holders[holder_index]
            .connection
            .store(Some(Arc::clone(&conn)));
        let before = self.primary.send_replace(Some(Arc::clone(&conn)));
        if let Some(before) = before.filter(|before| before.server != conn.server) {
            telemetry::failover(&before.server, &conn.server);
        }
        self.first_attempt_ended.send_replace(true);
        self.apply_breaker_transition(self.breaker.close(), "");
        self.shared.mark_server_up(&self.label);
    }

    /// Connection of a holder, if it has one.
    pub(crate) fn connection_at(&self, holder_index: usize) -> Option<Arc<ServerConnection>> {
        self.holders[holder_index].connection.load_full()
    }

    /// Discards a connection and wakes its supervisor.
    pub(crate) fn discard_connection(
        &self,
        holder_index: usize,
        conn: &Arc<ServerConnection>,
        reason: &str,
    ) {
        let holder = &self.holders[holder_index];
        let before = holder.connection.compare_and_swap(conn, None);
        if before.as_ref().is_none_or(|it| !Arc::ptr_eq(it, conn)) {
            return;
        }
        telemetry::connection_lost(&conn.server, reason);
        if self
            .holders
            .iter()
            .all(|holder| holder.connection.load().is_none())
        {
            self.report_down(reason);
        }
        self.owner.on_connection_lost(&conn.server);
        holder.wake_supervisor.notify_one();
    }

    pub(crate) fn is_disconnected(&self, holder_index: usize) -> bool {
        self.holders[holder_index].connection.load().is_none()
    }

    /// A connection, chosen round robin.
    pub(super) fn pick_connection(&self) -> Option<(Arc<ServerConnection>, usize)> {
        let count = self.holders.len();
        let first = if count == 1 {
            0
        } else {
            self.next_holder.fetch_add(1, Ordering::Relaxed)
        };
        (0..count)
            .map(|step| (first + step) % count)
            .find_map(|holder_index| Some((self.connection_at(holder_index)?, holder_index)))
    }
}
