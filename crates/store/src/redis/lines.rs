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

use super::connect::{ServerInfo, timeout_error};
use super::link::{PrimaryPoolInner, PrimaryPoolTarget};
use crate::script;
use crate::telemetry::StoreTelemetryEvent;
use crate::url::ServerAddress;

/// Holder of one connection.
#[derive(Default)]
pub(crate) struct ConnectionHolder {
    pub(super) connection_at: ArcSwapOption<ServerConnection>,
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
        let patience = self.dialer.connect_timeout() * 3;
        let connect = tokio::time::timeout(patience, self.connect_without_timeout()).await;
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
        let mut con = self.dialer.connect(&server).await?;
        let (identity, unknown) = ServerInfo::fetch(&mut con).await?;
        if let Some(reason) = unknown {
            StoreTelemetryEvent::ServerInfoDenied {
                server: &self.label,
                reason: &reason,
            }
            .emit();
        }
        if identity.is_replica {
            let detail = format!("{server} is a replica: give the address of its primary");
            return Err(RedisError::from((
                ErrorKind::Client,
                "not a primary",
                detail,
            )));
        }
        self.load_scripts(&mut con).await?;
        self.owner
            .prepare_connection(&server, &identity, &mut con)
            .await?;
        Ok(ServerConnection {
            connection: con,
            server,
            info: identity,
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

    /// Installs a new connection.
    pub(crate) fn install_connection(&self, line: usize, conn: ServerConnection) {
        let conn = Arc::new(conn);
        StoreTelemetryEvent::Connected {
            server: &conn.server.to_string(),
            version: &conn.info.version,
        }
        .emit();
        self.holders[line]
            .connection_at
            .store(Some(Arc::clone(&conn)));
        let before = self.primary.send_replace(Some(Arc::clone(&conn)));
        if let Some(before) = before.filter(|before| before.server != conn.server) {
            StoreTelemetryEvent::Failover {
                from: &before.server.to_string(),
                to: &conn.server.to_string(),
            }
            .emit();
        }
        self.apply_breaker_transition(self.breaker.close(), "");
        self.shared.mark_server_up(&self.label);
    }

    /// Connection of a holder, if it has one.
    pub(crate) fn connection(&self, line: usize) -> Option<Arc<ServerConnection>> {
        self.holders[line].connection_at.load_full()
    }

    /// Discards a connection and wakes its supervisor.
    pub(crate) fn discard_connection(
        &self,
        line: usize,
        conn: &Arc<ServerConnection>,
        reason: &str,
    ) {
        let place = &self.holders[line];
        let before = place.connection_at.compare_and_swap(conn, None);
        if before.as_ref().is_none_or(|it| !Arc::ptr_eq(it, conn)) {
            return;
        }
        StoreTelemetryEvent::ConnectionLost {
            server: &conn.server.to_string(),
            reason,
        }
        .emit();
        if self
            .holders
            .iter()
            .all(|line| line.connection_at.load().is_none())
        {
            self.report_down(reason);
        }
        self.owner.on_connection_lost(&conn.server);
        place.wake_supervisor.notify_one();
    }

    /// Whether the holder has no connection.
    pub(crate) fn is_disconnected(&self, line: usize) -> bool {
        self.holders[line].connection_at.load().is_none()
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
            .find_map(|line| Some((self.connection(line)?, line)))
    }
}
