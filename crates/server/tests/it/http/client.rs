//! HTTP client of the tests, and the nodes that they start.

use std::collections::HashMap;

use parlor_testkit::{HttpResponse, Redis, ServerProcess, ServerProcessOptions, eventually};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use crate::support::{PARLOR, get};
use crate::tokens::{SECRET, service};

/// Starts a node on the embedded store that accepts the tokens of [`crate::tokens`], and waits until it is ready.
pub async fn embedded() -> ServerProcess {
    ready(node()).await
}

/// Starts a node on a Redis and waits until it is ready.
pub async fn on(redis: &Redis) -> ServerProcess {
    let node = node().env("PARLOR_STORE__URL", redis.url());
    ready(node.env("PARLOR_STORE__TIMEOUT", "10s")).await
}

pub fn node() -> ServerProcessOptions {
    ServerProcess::parlor_serve(PARLOR).env("PARLOR_AUTH__SECRET", SECRET)
}

pub async fn ready(node: ServerProcessOptions) -> ServerProcess {
    let node = node.start().await;
    eventually("the node is ready", async || {
        get(&node.http_url(), "/readyz").await.map(|it| it.0 == 200)
    })
    .await;
    sign_in_all(&node).await;
    node
}

/// Users who have a session at the start of every test.
const SIGNED_IN: [&str; 4] = ["alice", "bob", "root", "slow"];

/// Begins the sessions of all users by a service, so that these requests do not count against the users.
pub async fn sign_in_all(node: &ServerProcess) {
    let mut line = HttpConnection::connect_to(node).await;
    for user in SIGNED_IN {
        let begin = call("POST", "/v1/sessions").by(&service());
        let begin = begin.header("Parlor-User", user);
        line.ask(begin).await.created();
    }
}

/// Begins the session of the user of this token.
pub async fn sign_in(node: &ServerProcess, token: &str) {
    let begin = call("POST", "/v1/sessions").by(token);
    begin.at(node).await.created();
}

/// Builder of a request.
pub struct TestRequest {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

pub fn call(method: &str, path: &str) -> TestRequest {
    TestRequest {
        method: method.into(),
        path: path.into(),
        headers: Vec::new(),
        body: Vec::new(),
    }
}

impl TestRequest {
    pub fn by(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    #[expect(clippy::needless_pass_by_value, reason = "called with `json!`")]
    pub fn json(self, body: Value) -> Self {
        self.body(body.to_string())
    }

    /// Sends the request on a new connection and returns the response.
    pub async fn at(self, node: &ServerProcess) -> TestResponse {
        let mut line = HttpConnection::connect_to(node).await;
        line.ask(self).await
    }
}

/// Connection to a node.
pub struct HttpConnection(parlor_testkit::HttpConnection);

impl HttpConnection {
    pub async fn connect_to(node: &ServerProcess) -> Self {
        let connection = parlor_testkit::HttpConnection::open(node.http_address()).await;
        Self(connection.unwrap())
    }

    pub async fn ask(&mut self, call: TestRequest) -> TestResponse {
        let headers: Vec<_> = call
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let request = self
            .0
            .request(&call.method, &call.path, &headers, &call.body);
        request.await.unwrap().into()
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes).await.unwrap();
    }

    pub async fn answer(&mut self) -> TestResponse {
        self.0.read_response(true).await.unwrap().into()
    }

    /// Waits until the server has closed the connection.
    pub async fn closed(&mut self) {
        let mut rest = Vec::new();
        // A connection that the server closes with unread input is reset.
        let _ = self.0.stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
    }
}

/// Response.
#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    headers: HashMap<String, String>,
    pub text: String,
}

impl From<HttpResponse> for TestResponse {
    fn from(response: HttpResponse) -> Self {
        Self {
            status: response.status,
            headers: response.headers,
            text: response.body,
        }
    }
}

impl TestResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Body of a response with status 200; fails on any other status.
    pub fn ok(&self) -> Value {
        self.succeeded(200)
    }

    /// Body of a response with status 201; fails on any other status.
    pub fn created(&self) -> Value {
        self.succeeded(201)
    }

    fn succeeded(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code of an error response, whose body must be a complete problem.
    pub fn refusal(&self) -> (u16, String) {
        let body = self.json();
        let kind = self.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{self:?}");
        assert_eq!(body["status"], self.status, "{self:?}");
        assert_eq!(body["type"], "about:blank", "{self:?}");
        for name in ["title", "detail"] {
            let text = body[name].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{self:?}");
        }
        let limited = body["code"] == "rate_limited";
        assert_eq!(body["retryAfterMs"].is_u64(), limited, "{self:?}");
        let fields = if limited { 6 } else { 5 };
        assert_eq!(body.as_object().unwrap().len(), fields, "{self:?}");
        (self.status, body["code"].as_str().unwrap().to_owned())
    }

    /// Fails unless the response has this status and error code; returns the description for people.
    pub fn refused(&self, status: u16, code: &str) -> String {
        assert_eq!(self.refusal(), (status, code.to_owned()), "{self:?}");
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}
