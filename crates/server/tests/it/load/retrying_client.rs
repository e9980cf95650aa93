//! HTTP client that retries on another node when its connection breaks.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use parlor_testkit::HttpConnection;
use serde_json::Value;
use tokio::time::timeout;

/// Timeout of a response, after which the client uses the next node.
const TEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Client with a connection to one node at a time.
pub struct Wire {
    nodes: Vec<SocketAddr>,
    at: usize,
    token: String,
    connection: Option<HttpConnection>,
}

/// Response.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// Body of a successful response; fails on an error.
    pub fn ok(self) -> Value {
        assert!(matches!(self.status, 200 | 201), "{self:?}");
        self.body
    }

    /// Fails unless the response has this status and error code.
    pub fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.body["code"], code, "{self:?}");
    }
}

/// Request.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// User that the service acts for.
    pub user: Option<&'a str>,
    pub body: Option<Value>,
}

impl<'a> Request<'a> {
    pub fn get(user: &'a str, path: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            user: Some(user),
            body: None,
        }
    }

    pub fn post(user: &'a str, path: &'a str, body: Value) -> Self {
        Self {
            method: "POST",
            path,
            user: Some(user),
            body: Some(body),
        }
    }
}

impl Wire {
    /// Client that connects on demand, first to the node with this number.
    pub fn new(nodes: &[SocketAddr], first: usize, token: &str) -> Self {
        Self {
            nodes: nodes.to_vec(),
            at: first,
            token: token.to_owned(),
            connection: None,
        }
    }

    /// Sends a request and returns the response. After a failure the next request goes to the next node.
    pub async fn ask(&mut self, request: &Request<'_>) -> io::Result<Answer> {
        match timeout(TEST_TIMEOUT, self.exchange(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                self.leave();
                Err(error)
            }
            Err(_) => {
                self.leave();
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    fn leave(&mut self) {
        self.connection = None;
        self.at += 1;
    }

    async fn exchange(&mut self, request: &Request<'_>) -> io::Result<Answer> {
        let address = self.nodes[self.at % self.nodes.len()];
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(HttpConnection::open(address).await?),
        };
        let token = format!("Bearer {}", self.token);
        let mut headers = vec![("Authorization", token.as_str())];
        headers.extend(request.user.map(|user| ("Parlor-User", user)));
        let body = request.body.as_ref().map(Value::to_string);
        let body = body.unwrap_or_default();
        let response = connection
            .request(request.method, request.path, &headers, body.as_bytes())
            .await?;
        Ok(Answer {
            status: response.status,
            body: response.json(),
        })
    }
}
