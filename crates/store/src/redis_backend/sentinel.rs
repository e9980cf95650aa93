//! Finds the primary through sentinels, and follows their announcements.
//!
//! Invariants:
//! 1. A sentinel that does not answer costs at most its share of the connect timeout. Then the next sentinel is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, PushInfo, PushKind, RedisError, RedisResult};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::connector::{ServerConnector, timeout_error};
use crate::url::ServerAddress;

const SWITCH_MASTER_CHANNEL: &str = "+switch-master";
/// A sentinel that sends nothing for this long gets a ping.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// The sentinels of one primary.
pub(crate) struct SentinelResolver {
    connector: ServerConnector,
    sentinels: Vec<ServerAddress>,
    primary_name: String,
    /// Index of the sentinel that is asked first: the one that answered last.
    first_sentinel: AtomicUsize,
    /// Whether the sentinels require the credentials too.
    sends_credentials: AtomicBool,
}

/// Announcements of one sentinel.
pub(crate) struct SwitchMasterStream {
    con: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    primary_name: String,
    reply_timeout: Duration,
}

impl SentinelResolver {
    pub(crate) fn new(
        connector: &ServerConnector,
        sentinels: Vec<ServerAddress>,
        primary_name: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            connector: connector.without_database(),
            sentinels,
            primary_name,
            first_sentinel: AtomicUsize::new(0),
            sends_credentials: AtomicBool::new(false),
        })
    }

    /// Name of the primary.
    pub(crate) fn primary_name(&self) -> &str {
        &self.primary_name
    }

    /// Address of the primary, from the first sentinel that knows it.
    pub(crate) async fn resolve_primary(&self) -> RedisResult<ServerAddress> {
        self.connect_any(None).await.map(|(_, primary)| primary)
    }

    /// Starts with another sentinel next time, because the last address did not lead to a working primary.
    pub(crate) fn rotate_sentinels(&self) {
        self.first_sentinel.fetch_add(1, Ordering::Relaxed);
    }

    /// Subscribes to the announcements of the first sentinel that knows the primary. Also returns the current primary.
    pub(crate) async fn subscribe_failovers(
        &self,
    ) -> RedisResult<(SwitchMasterStream, ServerAddress)> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let (mut con, _) = self.connect_any(Some(sender)).await?;
        let reply_timeout = self.connector.connect_timeout();
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(SWITCH_MASTER_CHANNEL);
        // The subscription comes first: the reply of the query covers every failover before it, an announcement every
        // later one.
        let listen = async {
            con.send_packed_command(&subscribe).await?.extract_error()?;
            self.query_primary(&mut con).await
        };
        let primary = timeout(reply_timeout, listen)
            .await
            .map_err(|_| timeout_error("the sentinel did not answer in time"))??;
        Ok((
            SwitchMasterStream {
                con,
                pushes,
                primary_name: self.primary_name.clone(),
                reply_timeout,
            },
            primary,
        ))
    }

    fn connector(&self) -> ServerConnector {
        if self.sends_credentials.load(Ordering::Relaxed) {
            self.connector.clone()
        } else {
            self.connector.without_credentials()
        }
    }

    async fn query_primary(&self, con: &mut MultiplexedConnection) -> RedisResult<ServerAddress> {
        let mut cmd = redis::cmd("SENTINEL");
        cmd.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.primary_name);
        let found: Option<(String, u16)> = cmd.query_async(con).await?;
        let (host, port) = found.ok_or_else(|| {
            let detail = format!(
                "no sentinel knows `{}`: check the name in the store url",
                self.primary_name
            );
            RedisError::from((
                ErrorKind::MasterNameNotFoundBySentinel,
                "unknown primary",
                detail,
            ))
        })?;
        Ok(ServerAddress { host, port })
    }

    /// Connects to the first sentinel that knows the primary.
    async fn connect_any(
        &self,
        push: Option<mpsc::UnboundedSender<PushInfo>>,
    ) -> RedisResult<(MultiplexedConnection, ServerAddress)> {
        let count = self.sentinels.len();
        let reply_timeout =
            self.connector.connect_timeout() / u32::try_from(count).unwrap_or(1).max(1);
        let start = self.first_sentinel.load(Ordering::Relaxed);
        let mut last = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel"));
        for step in 0..count {
            let index = (start + step) % count;
            let mut reply = timeout(reply_timeout, self.connect_one(index, push.clone())).await;
            if matches!(&reply, Ok(Err(error)) if self.requires_credentials(error)) {
                self.sends_credentials.store(true, Ordering::Relaxed);
                reply = timeout(reply_timeout, self.connect_one(index, push.clone())).await;
            }
            match reply {
                Ok(Ok(found)) => {
                    self.first_sentinel.store(index, Ordering::Relaxed);
                    return Ok(found);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = timeout_error("no sentinel answered in time"),
            }
        }
        Err(last)
    }

    async fn connect_one(
        &self,
        index: usize,
        push: Option<mpsc::UnboundedSender<PushInfo>>,
    ) -> RedisResult<(MultiplexedConnection, ServerAddress)> {
        let sentinel = &self.sentinels[index];
        let mut con = match push {
            Some(push) => self.connector().connect_pubsub(sentinel, push).await?,
            None => self.connector().connect(sentinel).await?,
        };
        let primary = self.query_primary(&mut con).await?;
        Ok((con, primary))
    }

    fn requires_credentials(&self, error: &RedisError) -> bool {
        error.code() == Some("NOAUTH")
            && self.connector.has_credentials()
            && !self.sends_credentials.load(Ordering::Relaxed)
    }
}

impl SwitchMasterStream {
    /// Address of the next new primary. `None` if the connection to the sentinel is lost.
    pub(crate) async fn next(&mut self) -> Option<ServerAddress> {
        loop {
            match timeout(PING_INTERVAL, self.pushes.recv()).await {
                Ok(None) => return None,
                Ok(Some(push)) if push.kind == PushKind::Disconnection => return None,
                Ok(Some(push)) => {
                    if let Some(primary) = self.parse_switch_master(push) {
                        return Some(primary);
                    }
                }
                Err(_) => {
                    let ping = redis::cmd("PING");
                    let ping =
                        timeout(self.reply_timeout, self.con.send_packed_command(&ping)).await;
                    ping.ok()?.ok()?;
                }
            }
        }
    }

    /// Parses `name old-host old-port new-host new-port`. `None` if the message is about another primary.
    fn parse_switch_master(&self, push: PushInfo) -> Option<ServerAddress> {
        if push.kind != PushKind::Message {
            return None;
        }
        let text = String::from_redis_value(push.data.into_iter().nth(1)?).ok()?;
        match text.split(' ').collect::<Vec<_>>().as_slice() {
            [name, _, _, host, port] if *name == self.primary_name => Some(ServerAddress {
                host: (*host).to_owned(),
                port: port.parse().ok()?,
            }),
            _ => None,
        }
    }
}
