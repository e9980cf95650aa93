//! Three nodes on one store and one database; each node has its own connections.

use std::ops::{Deref, DerefMut};

use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::Result;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{COMMON_ERROR_CODES, Operation};
use parlor_chat::context::ChatContext;
use parlor_chat::conversations::ListMembers;
use parlor_chat::database::{Database, PerBackend, WriteTransaction};
use parlor_chat::ids::NodeId;
use parlor_chat::keys::{Key, KeySettings, Keyspace, Preset};
use parlor_chat::{Chat, ChatOptions};
use parlor_store::Store;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::support::Fixture;
use crate::support::backend::{TestBackend, options_with_long_timeout};
pub use crate::support::{admin_caller, conversation, service_caller, user, user_caller};

const NODES: usize = 3;

pub struct ConversationsFixture {
    backend: TestBackend,
    pub keys: Keyspace,
    pub nodes: Vec<Chat>,
}

impl Fixture for ConversationsFixture {
    async fn on(backend: TestBackend, (): ()) -> Self {
        let mut stores = Vec::new();
        for _ in 0..NODES {
            stores.push(match &backend.url {
                Some(url) => Store::open(options_with_long_timeout(url)).await.unwrap(),
                None => backend.store.clone(),
            });
        }
        Self::with_stores(backend, stores).await
    }
}

impl ConversationsFixture {
    /// Nodes that share a store connection with a short timeout.
    pub async fn with_short_timeout() -> Self {
        let backend = TestBackend::redis_with_short_timeout().await;
        let stores = vec![backend.store.clone(); NODES];
        Self::with_stores(backend, stores).await
    }

    async fn with_stores(backend: TestBackend, stores: Vec<Store>) -> Self {
        let keys = backend.keys(KeySettings::from_preset(Preset::Parlor));
        let mut nodes = Vec::new();
        for (nth, store) in stores.into_iter().enumerate() {
            let context = ChatContext::new(store, keys.clone());
            let node = NodeId::new(format!("n{nth}")).unwrap();
            let options = ChatOptions::default();
            nodes.push(Chat::new(context, backend.database().await, node, &options));
        }
        Self {
            backend,
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
        let conversations = self.nodes[node].conversations();
        let answer = conversations.is_member(&conversation(id), &user(who)).await;
        answer.unwrap()
    }

    /// Lists the members from the rows, as `alice owner`.
    pub async fn members(&self, id: &str) -> Vec<String> {
        let request = serde_json::json!({ "conversationId": id, "limit": 100 });
        let list = run_operation::<ListMembers>(&self.nodes[0], &service_caller(), request).await;
        let members = list.unwrap().members.into_iter();
        members
            .map(|it| format!("{} {}", it.user_id, it.role))
            .collect()
    }

    pub async fn version(&self, id: &str) -> u64 {
        let id = conversation(id);
        let head = self.nodes[0]
            .conversations()
            .find_conversation(&id)
            .await
            .unwrap();
        head.unwrap().members_version
    }
}

impl Deref for ConversationsFixture {
    type Target = TestBackend;

    fn deref(&self) -> &TestBackend {
        &self.backend
    }
}

impl DerefMut for ConversationsFixture {
    fn deref_mut(&mut self) -> &mut TestBackend {
        &mut self.backend
    }
}

/// Runs an operation given as JSON.
pub async fn run_operation<O>(node: &Chat, caller: &Caller, request: Value) -> Result<O::Reply>
where
    O: Operation + DeserializeOwned,
{
    let request: O = serde_json::from_value(request).unwrap();
    request.run(node, caller).await
}

/// Runs an operation; returns its error code, `None` if it succeeded.
pub async fn error_code_of<O>(node: &Chat, caller: &Caller, request: Value) -> Option<ErrorCode>
where
    O: Operation + DeserializeOwned,
{
    let code = run_operation::<O>(node, caller, request)
        .await
        .err()?
        .code();
    let declared = O::INFO.codes.contains(&code);
    let common = COMMON_ERROR_CODES.contains(&code);
    assert!(declared || common, "{} {code}", O::INFO.name);
    Some(code)
}

/// Runs a statement.
pub async fn execute(database: &Database, statement: &'static str) {
    let mut tx = database.begin().await.unwrap();
    execute_in(&mut tx, statement).await;
    tx.commit().await.unwrap();
}

/// Runs a statement in a transaction.
pub async fn execute_in(tx: &mut WriteTransaction, statement: &'static str) {
    match tx.connection() {
        PerBackend::Sqlite(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
        PerBackend::Postgres(c) => drop(sqlx::query(statement).execute(c).await.unwrap()),
    }
}
