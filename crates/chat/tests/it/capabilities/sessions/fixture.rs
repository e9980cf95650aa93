//! A store and a database with two nodes.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::Result;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::ids::NodeId;
use parlor_chat::keys::{Key, KeySettings, Keyspace, Preset, SessionLayout};
use parlor_chat::sessions::{Sessions, VisitorTokenIssuer};
use parlor_chat::{Chat, ChatOptions, SessionOptions};

use crate::support::backend::TestBackend;
pub use crate::support::user;
use crate::support::{Fixture, user_caller};

/// Time for which a node uses a cached check.
pub const SESSION_CACHE_TTL: Duration = Duration::from_secs(1);

pub struct SessionsFixture {
    backend: TestBackend,
    pub keys: Keyspace,
    pub nodes: Vec<Arc<Sessions>>,
    chats: Vec<Chat>,
}

impl SessionsFixture {
    /// Nodes on which a new session ends the connections of the earlier device.
    pub async fn with_single_device() -> Self {
        let settings = KeySettings::from_preset(Preset::Parlor);
        Self::with_settings(TestBackend::embedded().await, settings, true).await
    }

    /// Nodes that store sessions in the database only.
    pub async fn with_rows_only(backend: TestBackend) -> Self {
        let mut settings = KeySettings::from_preset(Preset::Parlor);
        settings.layouts.session = SessionLayout::Off;
        Self::with_settings(backend, settings, false).await
    }

    async fn with_settings(
        backend: TestBackend,
        settings: KeySettings,
        single_device: bool,
    ) -> Self {
        let options = SessionOptions {
            single_device,
            allow_visitors: true,
            visitor_token_issuer: Some(VisitorTokenIssuer::new(|user, _| {
                Some(format!("token of {user}"))
            })),
        };
        let options = ChatOptions {
            sessions: options,
            ..ChatOptions::default()
        };
        let mut chats = Vec::new();
        for name in ["n0", "n1"] {
            let context = backend.context(settings.clone());
            let database = backend.database().await;
            let node = NodeId::new(name).unwrap();
            chats.push(Chat::new(context, database, node, &options));
        }
        let nodes = chats.iter().map(|chat| Arc::clone(chat.sessions()));
        let nodes = nodes.collect();
        let keys = backend.keys(settings);
        Self {
            backend,
            keys,
            nodes,
            chats,
        }
    }

    /// Applies the entries of the outbox on the first node.
    pub async fn drain_outbox(&self) {
        self.chats[0].outbox().drain().await.unwrap();
    }

    /// A caller with a token that is issued now.
    pub fn caller(&self, user: &str) -> Caller {
        Caller {
            // A token contains whole seconds.
            issued_at: Some(self.now().as_millis() / 1_000 * 1_000),
            ip_address: Some([192, 0, 2, 1].into()),
            ..user_caller(user)
        }
    }

    /// A caller with a session.
    pub async fn caller_with_session(&self, user: &str) -> Caller {
        let token = self.caller(user);
        self.nodes[0].begin(&token, Some("phone")).await.unwrap();
        token
    }

    /// Error code of a session check; `None` if the session is valid.
    pub async fn check_error(&self, node: usize, token: &Caller) -> Option<ErrorCode> {
        code(self.nodes[node].check(token.clone()).await)
    }

    pub fn key(&self, user: &str) -> Key {
        self.keys.session(&crate::support::user(user))
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
        self.backend.server.as_mut().unwrap().kill9();
    }
}

impl Fixture for SessionsFixture {
    async fn on(backend: TestBackend, (): ()) -> Self {
        Self::with_settings(backend, KeySettings::from_preset(Preset::Parlor), false).await
    }
}

impl Deref for SessionsFixture {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.backend
    }
}

pub fn code<T>(answer: Result<T>) -> Option<ErrorCode> {
    answer.err().map(|error| error.code())
}
