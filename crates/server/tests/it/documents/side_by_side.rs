//! Parlor and an old service on the same Redis.

use parlor_testkit::{Redis, ServerProcess, SocketIoTestClient, eventually};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use super::monitor::{MonitorRecorder, TakeoverRule, test_connection};
use super::old_service::OldService;
use crate::http::client::{TestRequest, TestResponse, call, node, ready};
use crate::socketio;
use crate::support::get;
use crate::tokens::service;

/// Preset, program and rules of a document.
pub struct SchemaDocument {
    /// Preset of Parlor.
    pub preset: &'static str,
    /// Program in `old_services/`.
    pub program: &'static str,
    /// Changes of Parlor to keys that the old service wrote.
    pub rules: &'static [TakeoverRule],
}

/// Both services at work. [`SideBySide::finish`] must end it.
pub struct SideBySide {
    pub redis: Redis,
    pub old: OldService,
    pub node: ServerProcess,
    /// Connection of the test.
    pub keys: MultiplexedConnection,
    recorder: MonitorRecorder,
    rules: &'static [TakeoverRule],
    is_finished: bool,
}

impl SideBySide {
    pub async fn start(document: &SchemaDocument) -> Self {
        Self::start_after(document, async |_| {}).await
    }

    /// Starts Parlor after the old service has done its work.
    pub async fn start_after(
        document: &SchemaDocument,
        work: impl AsyncFnOnce(&OldService),
    ) -> Self {
        let redis = Redis::start().await;
        let recorder = MonitorRecorder::start(&redis).await;
        let old = OldService::start(document.program, &redis).await;
        work(&old).await;
        let options = node().env("PARLOR_STORE__URL", redis.url());
        let options = options.env("PARLOR_STORE__TIMEOUT", "10s");
        let node = ready(options.env("PARLOR_KEYS__PRESET", document.preset)).await;
        let keys = test_connection(&redis).await;
        Self {
            redis,
            old,
            node,
            keys,
            recorder,
            rules: document.rules,
            is_finished: false,
        }
    }

    /// Connects a user to Parlor over Socket.IO.
    pub async fn connect(&self, user: &str) -> SocketIoTestClient {
        socketio::connect(&self.node, user).await
    }

    /// Presence of a user as Parlor reads it.
    pub async fn presence(&self, user: &str) -> Value {
        let presence = call("GET", &format!("/v1/users/{user}/presence"));
        presence.by(&service()).at(&self.node).await.ok()
    }

    /// Request to Parlor on behalf of a user.
    pub fn request(&self, user: &str, method: &str, path: &str) -> TestRequest {
        let request = call(method, path).by(&service());
        request.header("Parlor-User", user)
    }

    /// Creates a conversation; the first member is its owner.
    pub async fn conversation(&self, id: &str, members: &[&str]) {
        let body = json!({ "id": id, "kind": "group", "members": &members[1..] });
        let create = self.request(members[0], "POST", "/v1/conversations");
        create.json(body).at(&self.node).await.created();
    }

    /// Sends a message to a conversation.
    pub async fn send(&self, conversation: &str, sender: &str, content: &str) -> TestResponse {
        let path = format!("/v1/conversations/{conversation}/messages");
        let send = self.request(sender, "POST", &path);
        send.json(json!({ "content": content }))
            .at(&self.node)
            .await
    }

    /// Stops Parlor cleanly; the old service goes on alone.
    pub async fn stop_parlor(&mut self) {
        assert!(self.node.terminate_and_wait().await.success());
    }

    /// Starts Parlor again with its data, and waits until it is ready.
    pub async fn restart_parlor(&mut self) {
        self.node.restart().await;
        eventually("the node is ready", async || {
            let ready = get(&self.node.http_url(), "/readyz").await;
            ready.map(|it| it.0 == 200)
        })
        .await;
    }

    /// Stops Parlor if it still runs. Fails if it has changed anything that it did not write.
    pub async fn finish(mut self) {
        self.is_finished = true;
        if self.node.is_running() {
            self.stop_parlor().await;
        }
        let violations = self.recorder.violations(self.rules).await;
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}

impl Drop for SideBySide {
    fn drop(&mut self) {
        let is_judged = self.is_finished || std::thread::panicking();
        assert!(is_judged, "the test does not call `finish`");
    }
}
