//! HTTP client that retries on another node when its connection breaks.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Timeout of a response, after which the client uses the next node.
const PATIENCE: Duration = Duration::from_secs(15);

/// Client with a connection to one node at a time.
pub struct Wire {
    nodes: Vec<SocketAddr>,
    at: usize,
    token: String,
    stream: Option<BufReader<TcpStream>>,
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
            stream: None,
        }
    }

    /// Sends a request and returns the response. After a failure the next request goes to the next node.
    pub async fn ask(&mut self, request: &Request<'_>) -> io::Result<Answer> {
        match timeout(PATIENCE, self.exchange(request)).await {
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
        self.stream = None;
        self.at += 1;
    }

    async fn exchange(&mut self, request: &Request<'_>) -> io::Result<Answer> {
        let address = self.nodes[self.at % self.nodes.len()];
        if self.stream.is_none() {
            self.stream = Some(BufReader::new(TcpStream::connect(address).await?));
        }
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let body = request.body.as_ref().map(Value::to_string);
        let body = body.unwrap_or_default();
        let user = request.user.map(|user| format!("Parlor-User: {user}\r\n"));
        let text = format!(
            "{} {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n{}Content-Length: {}\r\n\r\n{body}",
            request.method,
            request.path,
            self.token,
            user.unwrap_or_default(),
            body.len()
        );
        stream.write_all(text.as_bytes()).await?;
        answer(stream).await
    }
}

async fn answer(stream: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let first = line(stream).await?;
    let status = first.split(' ').nth(1).and_then(|it| it.parse().ok());
    let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut length = 0;
    loop {
        let line = line(stream).await?.to_lowercase();
        let Some((name, value)) = line.split_once(": ") else {
            break;
        };
        if name == "content-length" {
            length = value.parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Answer {
        status,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}

async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}
