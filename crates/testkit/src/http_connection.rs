//! HTTP/1.1 client for tests. It writes and reads bytes itself, so that tests can also send malformed requests.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// One connection to a server.
pub struct HttpConnection {
    /// Stream, positioned after the last response.
    pub stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl HttpConnection {
    /// Connects to a server.
    pub async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = BufReader::with_capacity(4_096, stream);
        Ok(Self { stream, address })
    }

    /// Sends a request without waiting for its response.
    pub async fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let address = self.address;
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n", body.len());
        self.write(&[request.as_bytes(), body].concat()).await
    }

    /// Sends a request and returns its response.
    pub async fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<HttpResponse> {
        self.send(method, target, headers, body).await?;
        self.read_response(method != "HEAD").await
    }

    /// Writes bytes unchanged.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads a response. The response to a `HEAD` request has no body, although it has a `Content-Length`.
    pub async fn read_response(&mut self, has_body: bool) -> io::Result<HttpResponse> {
        let status_line = self.read_line().await?;
        let status = status_line.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(status_line))?;
        let mut headers = HashMap::new();
        while let Some((name, value)) = self.read_line().await?.split_once(':') {
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let length = match headers.get("content-length") {
            Some(length) if has_body => length.parse().map_err(io::Error::other)?,
            _ => 0,
        };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(HttpResponse {
            status,
            headers,
            body: String::from_utf8(body).map_err(io::Error::other)?,
        })
    }

    async fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

/// Response of a server.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: HashMap<String, String>,
    /// Body.
    pub body: String,
}

impl HttpResponse {
    /// Value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Body as JSON, or `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}
