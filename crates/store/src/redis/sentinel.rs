//! Asking sentinels for the primary, and listening to them.
//!
//! Always true: a sentinel that does not answer costs at most its share of the patience, then the next one is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, PushInfo, PushKind, RedisError, RedisResult};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::connect::{Dialer, timed_out};
use crate::url::Address;

const CHANNEL: &str = "+switch-master";
/// How often a silent sentinel is asked whether it is still there.
const SILENCE: Duration = Duration::from_secs(2);

/// The sentinels of one primary.
pub(crate) struct Sentinel {
    dialer: Dialer,
    sentinels: Vec<Address>,
    primary: String,
    /// Where asking starts: at the sentinel that answered last.
    first: AtomicUsize,
    /// Whether the sentinels want the login too.
    login: AtomicBool,
}

/// What one sentinel announces.
pub(crate) struct Announcements {
    con: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    primary: String,
    patience: Duration,
}

impl Sentinel {
    pub(crate) fn new(dialer: &Dialer, sentinels: Vec<Address>, primary: String) -> Arc<Self> {
        Arc::new(Self {
            dialer: dialer.without_database(),
            sentinels,
            primary,
            first: AtomicUsize::new(0),
            login: AtomicBool::new(false),
        })
    }

    /// The name of the primary.
    pub(crate) fn name(&self) -> &str {
        &self.primary
    }

    /// The address of the primary, by the first sentinel that knows it.
    pub(crate) async fn primary(&self) -> RedisResult<Address> {
        self.enter(None).await.map(|(_, primary)| primary)
    }

    /// What was said last led nowhere: begins with another sentinel next time.
    pub(crate) fn doubt(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// Listens to the first sentinel that knows the primary; that comes along.
    pub(crate) async fn listen(&self) -> RedisResult<(Announcements, Address)> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let (mut con, _) = self.enter(Some(sender)).await?;
        let patience = self.dialer.patience();
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(CHANNEL);
        // What is announced between subscribing and asking is in the answer, what comes later is announced.
        let listen = async {
            con.send_packed_command(&subscribe).await?.extract_error()?;
            self.ask(&mut con).await
        };
        let primary = timeout(patience, listen)
            .await
            .map_err(|_| timed_out("the sentinel did not answer in time"))??;
        Ok((
            Announcements {
                con,
                pushes,
                primary: self.primary.clone(),
                patience,
            },
            primary,
        ))
    }

    fn dialer(&self) -> Dialer {
        if self.login.load(Ordering::Relaxed) {
            self.dialer.clone()
        } else {
            self.dialer.anonymous()
        }
    }

    async fn ask(&self, con: &mut MultiplexedConnection) -> RedisResult<Address> {
        let mut cmd = redis::cmd("SENTINEL");
        cmd.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.primary);
        let found: Option<(String, u16)> = cmd.query_async(con).await?;
        let (host, port) = found.ok_or_else(|| {
            let detail = format!(
                "no sentinel knows `{}`: check the name in the store url",
                self.primary
            );
            RedisError::from((
                ErrorKind::MasterNameNotFoundBySentinel,
                "unknown primary",
                detail,
            ))
        })?;
        Ok(Address { host, port })
    }

    /// A connection to the first sentinel that knows the primary.
    async fn enter(
        &self,
        push: Option<mpsc::UnboundedSender<PushInfo>>,
    ) -> RedisResult<(MultiplexedConnection, Address)> {
        let count = self.sentinels.len();
        let patience = self.dialer.patience() / u32::try_from(count).unwrap_or(1).max(1);
        let start = self.first.load(Ordering::Relaxed);
        let mut last = RedisError::from((ErrorKind::EmptySentinelList, "no sentinel"));
        for step in 0..count {
            let index = (start + step) % count;
            let mut answer = timeout(patience, self.enter_one(index, push.clone())).await;
            if matches!(&answer, Ok(Err(error)) if self.wants_login(error)) {
                self.login.store(true, Ordering::Relaxed);
                answer = timeout(patience, self.enter_one(index, push.clone())).await;
            }
            match answer {
                Ok(Ok(found)) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(found);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = timed_out("no sentinel answered in time"),
            }
        }
        Err(last)
    }

    async fn enter_one(
        &self,
        index: usize,
        push: Option<mpsc::UnboundedSender<PushInfo>>,
    ) -> RedisResult<(MultiplexedConnection, Address)> {
        let sentinel = &self.sentinels[index];
        let mut con = match push {
            Some(push) => self.dialer().dial_bus(sentinel, push).await?,
            None => self.dialer().dial(sentinel).await?,
        };
        let primary = self.ask(&mut con).await?;
        Ok((con, primary))
    }

    fn wants_login(&self, error: &RedisError) -> bool {
        error.code() == Some("NOAUTH")
            && self.dialer.has_login()
            && !self.login.load(Ordering::Relaxed)
    }
}

impl Announcements {
    /// The address of the next new primary; none when the sentinel is gone.
    pub(crate) async fn next(&mut self) -> Option<Address> {
        loop {
            match timeout(SILENCE, self.pushes.recv()).await {
                Ok(None) => return None,
                Ok(Some(push)) if push.kind == PushKind::Disconnection => return None,
                Ok(Some(push)) => {
                    if let Some(primary) = self.announced(push) {
                        return Some(primary);
                    }
                }
                Err(_) => {
                    let ping = redis::cmd("PING");
                    let ping = timeout(self.patience, self.con.send_packed_command(&ping)).await;
                    ping.ok()?.ok()?;
                }
            }
        }
    }

    /// `name old-host old-port new-host new-port`, if it is about our primary.
    fn announced(&self, push: PushInfo) -> Option<Address> {
        if push.kind != PushKind::Message {
            return None;
        }
        let text = String::from_redis_value(push.data.into_iter().nth(1)?).ok()?;
        match text.split(' ').collect::<Vec<_>>().as_slice() {
            [name, _, _, host, port] if *name == self.primary => Some(Address {
                host: (*host).to_owned(),
                port: port.parse().ok()?,
            }),
            _ => None,
        }
    }
}
