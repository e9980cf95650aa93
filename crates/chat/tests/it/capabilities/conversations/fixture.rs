//! Three nodes on one store and one database; each node has its own connections.

use std::ops::{Deref, DerefMut};

use parlor_chat::Chat;
use parlor_chat::ChatOptions;
use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::api::error::Result;
use parlor_chat::api::error_code::Code;
use parlor_chat::api::operation::Operation;
use parlor_chat::context::ChatContext;
use parlor_chat::database::{Database, Either, WriteTransaction};
use parlor_chat::ids::{ConversationId, NodeId, UserId};
use parlor_chat::keys::{Key, KeySettings, Keyspace, Preset};
use parlor_store::Store;
use parlor_testkit::RedisCluster;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::backend::{TestBackend, options_with_long_timeout};

const NODES: usize = 3;

pub struct World {
    ground: TestBackend,
    pub keys: Keyspace,
    pub nodes: Vec<Chat>,
}

impl World {
    pub async fn embedded() -> Self {
        Self::on(TestBackend::embedded().await, None).await
    }

    pub async fn redis() -> Self {
        let ground = TestBackend::redis().await;
        let url = ground.server.as_ref().unwrap().url();
        Self::on(ground, Some(url)).await
    }

    pub async fn impatient() -> Self {
        Self::on(TestBackend::redis_with_short_timeout().await, None).await
    }

    pub async fn cluster(cluster: &mut RedisCluster) -> Self {
        let url = cluster.url();
        Self::on(TestBackend::cluster(cluster).await, Some(url)).await
    }

    /// Nodes with their own stores at `url`, or with the store of the backend.
    async fn on(ground: TestBackend, url: Option<String>) -> Self {
        let keys = ground.keys(KeySettings::from_preset(Preset::Parlor));
        let mut nodes = Vec::new();
        for nth in 0..NODES {
            let store = match &url {
                Some(url) => Store::open(options_with_long_timeout(url)).await.unwrap(),
                None => ground.store.clone(),
            };
            let context = ChatContext::new(store, keys.clone());
            let node = NodeId::new(format!("n{nth}")).unwrap();
            let options = ChatOptions::default();
            nodes.push(Chat::new(context, ground.database().await, node, &options));
        }
        Self {
            ground,
            keys,
            nodes,
        }
    }

    /// Reads the value of a key.
    pub async fn get_key(&self, key: &Key) -> Option<String> {
        let mut get = redis::cmd("GET");
        get.arg(key);
        get.query_async(&mut self.store.clone()).await.unwrap()
    }

    /// Reads the cached membership of a user.
    pub async fn cached_membership(&self, id: &str, who: &str) -> Option<String> {
        let key = self.keys.membership(&conversation(id), &user(who));
        self.get_key(&key).await
    }

    pub async fn set(&self, key: &Key, value: &str) {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value);
        set.exec_async(&mut self.store.clone()).await.unwrap();
    }

    /// Whether a user is a member, as a node answers it.
    pub async fn is_member_on_node(&self, node: usize, id: &str, who: &str) -> bool {
        let members = self.nodes[node].members();
        let answer = members.is_member(&conversation(id), &user(who)).await;
        answer.unwrap()
    }

    /// Lists the members from the rows, as `alice owner`.
    pub async fn members(&self, id: &str) -> Vec<String> {
        let asked = serde_json::json!({ "conversationId": id, "limit": 100 });
        let list = ask::<parlor_chat::conversations::ListMembers>;
        let members = list(&self.nodes[0], &service(), asked).await.unwrap();
        let members = members.members.into_iter();
        members
            .map(|it| format!("{} {}", it.user_id, it.role.word()))
            .collect()
    }

    pub async fn version(&self, id: &str) -> u64 {
        let id = conversation(id);
        let head = self.nodes[0].conversations().head(&id).await.unwrap();
        head.unwrap().members_version
    }
}

impl Deref for World {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.ground
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut TestBackend {
        &mut self.ground
    }
}

/// Runs an operation given as JSON.
pub async fn ask<O>(node: &Chat, caller: &Caller, request: Value) -> Result<O::Reply>
where
    O: Operation + DeserializeOwned,
{
    let request: O = serde_json::from_value(request).unwrap();
    request.run(node, caller).await
}

/// Runs an operation; returns its error code, `None` if it succeeded.
pub async fn code<O>(node: &Chat, caller: &Caller, request: Value) -> Option<Code>
where
    O: Operation + DeserializeOwned,
{
    let code = ask::<O>(node, caller, request).await.err()?.code();
    let declared = O::INFO.codes.contains(&code);
    let everywhere = parlor_chat::api::operation::COMMON_ERROR_CODES.contains(&code);
    assert!(declared || everywhere, "{} {code}", O::INFO.name);
    Some(code)
}

/// Runs a statement.
pub async fn execute(database: &Database, statement: &'static str) {
    let mut tx = database.begin().await.unwrap();
    run(&mut tx, statement).await;
    tx.commit().await.unwrap();
}

/// Runs a statement in a transaction.
pub async fn run(tx: &mut WriteTransaction, statement: &'static str) {
    match tx.connection() {
        Either::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        Either::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
    }
}

pub fn person(id: &str) -> Caller {
    Caller {
        user: Some(user(id)),
        name: None,
        role: Role::User,
        anonymous: false,
        issued_at: Some(0),
        expires_at: u64::MAX,
        ip_address: None,
    }
}

pub fn agent(id: &str) -> Caller {
    Caller {
        role: Role::Admin,
        ..person(id)
    }
}

pub fn service() -> Caller {
    Caller {
        user: None,
        role: Role::Service,
        ..person("x")
    }
}

pub fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

pub fn conversation(id: &str) -> ConversationId {
    ConversationId::new(id).unwrap()
}

/// Waits for all futures, which run concurrently, and returns their results.
pub async fn all<T>(work: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut work: Vec<_> = work.into_iter().map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|cx| {
        let mut ready = true;
        for (future, done) in &mut work {
            if done.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(value) => *done = Some(value),
                    std::task::Poll::Pending => ready = false,
                }
            }
        }
        match ready {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    work.into_iter().map(|(_, done)| done.unwrap()).collect()
}

/// Waits for a future, with a timeout.
pub async fn with_timeout<T>(what: impl Future<Output = T>) -> T {
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, what).await.unwrap()
}
