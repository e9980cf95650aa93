//! A store and a database with two nodes.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parlor_chat::SessionOptions;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::api::error::Result;
use parlor_chat::api::error_code::Code;
use parlor_chat::ids::UserId;
use parlor_chat::keys::{Key, KeySettings, Keyspace, Preset};
use parlor_chat::sessions::{Sessions, VisitorTokenIssuer};
use parlor_testkit::RedisCluster;

use crate::support::backend::TestBackend;

/// Time for which a node uses a cached check.
pub const SESSION_CACHE_TTL: Duration = Duration::from_secs(1);

pub struct World {
    ground: TestBackend,
    pub keys: Keyspace,
    pub nodes: Vec<Arc<Sessions>>,
}

impl World {
    pub async fn embedded() -> Self {
        Self::on(TestBackend::embedded().await, false).await
    }

    pub async fn redis() -> Self {
        Self::on(TestBackend::redis().await, false).await
    }

    pub async fn cluster(cluster: &mut RedisCluster) -> Self {
        Self::on(TestBackend::cluster(cluster).await, false).await
    }

    pub async fn impatient() -> Self {
        Self::on(TestBackend::redis_with_short_timeout().await, false).await
    }

    /// An environment in which a new session ends the connections of the earlier device.
    pub async fn single_device() -> Self {
        Self::on(TestBackend::embedded().await, true).await
    }

    async fn on(ground: TestBackend, single_device: bool) -> Self {
        let settings = KeySettings::from_preset(Preset::Parlor);
        let options = SessionOptions {
            single_device,
            allow_visitors: true,
            visitor_token_issuer: Some(VisitorTokenIssuer::new(|user, _| {
                Some(format!("token of {user}"))
            })),
        };
        let mut nodes = Vec::new();
        for _ in 0..2 {
            let context = ground.context(settings.clone());
            let database = ground.database().await;
            nodes.push(Arc::new(Sessions::new(context, database, options.clone())));
        }
        let keys = ground.keys(settings);
        Self {
            ground,
            keys,
            nodes,
        }
    }

    /// A caller with a token that is issued now.
    pub fn caller(&self, user: &str) -> Caller {
        Caller {
            user: Some(UserId::new(user).unwrap()),
            name: None,
            role: Role::User,
            anonymous: false,
            // A token contains whole seconds.
            issued_at: Some(self.now().as_millis() / 1_000 * 1_000),
            expires_at: u64::MAX,
            ip_address: Some([192, 0, 2, 1].into()),
        }
    }

    /// A caller with a session.
    pub async fn caller_with_session(&self, user: &str) -> Caller {
        let token = self.caller(user);
        self.nodes[0].begin(&token, Some("phone")).await.unwrap();
        token
    }

    /// Error code of a session check; `None` if the session is valid.
    pub async fn check_error(&self, node: usize, token: &Caller) -> Option<Code> {
        code(self.nodes[node].check(token.clone()).await)
    }

    pub fn key(&self, user: &str) -> Key {
        self.keys.session(&UserId::new(user).unwrap())
    }

    /// The documented hash.
    pub async fn hash(&self, user: &str) -> BTreeMap<String, String> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(self.key(user));
        cmd.query_async(&mut self.store.clone()).await.unwrap()
    }

    /// Runs a command of another service on the session hash.
    pub async fn run_as_other_service(&self, command: &str, user: &str, rest: &[&str]) {
        let mut cmd = redis::cmd(command);
        cmd.arg(self.key(user)).arg(rest);
        cmd.exec_async(&mut self.store.clone()).await.unwrap();
    }

    /// Raises the store epoch, as after a restart.
    pub async fn raise_epoch(&self) {
        self.store.raise_epoch().await.unwrap();
    }

    pub fn kill_store(&mut self) {
        self.ground.server.as_mut().unwrap().kill9();
    }
}

impl Deref for World {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.ground
    }
}

pub fn code<T>(answer: Result<T>) -> Option<Code> {
    answer.err().map(|error| error.code())
}

pub fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}
