//! The connections of a link: made, put into use, taken out of use.
//!
//! Always true: a connection is put into use only after its server was recognised as a primary, has our scripts, and the
//! epoch is settled for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, Pipeline, RedisError, RedisResult};
use tokio::sync::Notify;

use super::connect::{Identity, timed_out};
use super::link::{Core, Target};
use crate::script;
use crate::telemetry::Event;
use crate::url::Address;

/// The place of one connection.
#[derive(Default)]
pub(crate) struct Line {
    pub(super) current: ArcSwapOption<Conn>,
    /// Wakes the supervisor: the connection was given up, or somebody doubts it.
    pub(crate) wake: Notify,
}

pub(crate) struct Conn {
    pub(crate) con: MultiplexedConnection,
    pub(crate) server: Address,
    pub(crate) identity: Identity,
}

impl Core {
    /// A connection to the primary, ready for use.
    pub(crate) async fn connect(&self) -> RedisResult<Conn> {
        // Finding the primary, the TCP and TLS handshake and our own questions get one patience each.
        let patience = self.dialer.patience() * 3;
        let connect = tokio::time::timeout(patience, self.connect_unbounded()).await;
        let connect = connect.unwrap_or_else(|_| Err(timed_out("no connection in time")));
        if let (Err(_), Target::Sentinel(sentinel)) = (&connect, &self.target) {
            sentinel.doubt();
        }
        connect
    }

    async fn connect_unbounded(&self) -> RedisResult<Conn> {
        let server = match &self.target {
            Target::Server(server) => server.clone(),
            Target::Sentinel(sentinel) => sentinel.primary().await?,
        };
        let mut con = self.dialer.dial(&server).await?;
        let (identity, unknown) = Identity::ask(&mut con).await?;
        if let Some(reason) = unknown {
            Event::IdentityUnknown {
                server: &self.name,
                reason: &reason,
            }
            .emit();
        }
        if identity.replica {
            let detail = format!("{server} is a replica: give the address of its primary");
            return Err(RedisError::from((
                ErrorKind::Client,
                "not a primary",
                detail,
            )));
        }
        self.load_scripts(&mut con).await?;
        self.host.admit(&server, &identity, &mut con).await?;
        Ok(Conn {
            con,
            server,
            identity,
        })
    }

    async fn load_scripts(&self, con: &mut MultiplexedConnection) -> RedisResult<()> {
        if self.shared.scripts.is_empty() {
            return Ok(());
        }
        let mut pipe = Pipeline::with_capacity(self.shared.scripts.len());
        for script in &self.shared.scripts {
            // Asking for the SHA makes the source known to whoever meets `NOSCRIPT`.
            script.sha();
            pipe.add_command(script::load(script.source()));
        }
        pipe.exec_async(con).await
    }

    /// Puts a fresh connection into use.
    pub(crate) fn publish(&self, line: usize, conn: Conn) {
        let conn = Arc::new(conn);
        Event::Connected {
            server: &conn.server.to_string(),
            version: &conn.identity.version,
        }
        .emit();
        self.lines[line].current.store(Some(Arc::clone(&conn)));
        let before = self.primary.send_replace(Some(Arc::clone(&conn)));
        if let Some(before) = before.filter(|before| before.server != conn.server) {
            Event::Failover {
                from: &before.server.to_string(),
                to: &conn.server.to_string(),
            }
            .emit();
        }
        self.note(self.breaker.reset(), "");
        self.shared.well(&self.name);
    }

    /// The connection of a line, if it has one.
    pub(crate) fn current(&self, line: usize) -> Option<Arc<Conn>> {
        self.lines[line].current.load_full()
    }

    /// Takes a connection out of use and wakes its supervisor.
    pub(crate) fn lose(&self, line: usize, conn: &Arc<Conn>, reason: &str) {
        let place = &self.lines[line];
        let before = place.current.compare_and_swap(conn, None);
        if before.as_ref().is_none_or(|it| !Arc::ptr_eq(it, conn)) {
            return;
        }
        Event::ConnectionLost {
            server: &conn.server.to_string(),
            reason,
        }
        .emit();
        if self.lines.iter().all(|line| line.current.load().is_none()) {
            self.trouble(reason);
        }
        self.host.lost(&conn.server);
        place.wake.notify_one();
    }

    /// Whether the line's connection was given up.
    pub(crate) fn is_lost(&self, line: usize) -> bool {
        self.lines[line].current.load().is_none()
    }

    /// Any connection, in turn.
    pub(super) fn pick(&self) -> Option<(Arc<Conn>, usize)> {
        let count = self.lines.len();
        let first = if count == 1 {
            0
        } else {
            self.next.fetch_add(1, Ordering::Relaxed)
        };
        (0..count)
            .map(|step| (first + step) % count)
            .find_map(|line| Some((self.current(line)?, line)))
    }
}
