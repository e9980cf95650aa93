//! HTTP and WebSocket client that writes raw bytes, so that it can also break the protocols.

use super::echo::{EchoServers, Settings};
use parlor_socketio::frame;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than any step takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const MASK: [u8; 4] = [0x9a, 0x01, 0xff, 0x42];

/// Echo server of a test; stops when it is dropped.
pub struct EchoServer {
    pub address: SocketAddr,
    task: JoinHandle<std::io::Result<()>>,
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Settings whose pings and timeouts do not occur within the time of a test.
pub fn calm() -> Settings {
    Settings {
        ping_interval: Duration::from_secs(300),
        ping_timeout: Duration::from_secs(200),
        max_payload: 100_000,
        connect_timeout: Duration::from_secs(300),
        auth_delay: Duration::ZERO,
    }
}

pub async fn serve(settings: Settings) -> EchoServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(EchoServers::new(settings).serve(listener));
    EchoServer { address, task }
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HttpResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// TCP connection with a read buffer.
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            read: Vec::new(),
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        // The server may have closed the connection already.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads more bytes. Returns false at the end of the stream.
    async fn read_more(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        let count = timeout(PATIENCE, self.stream.read(&mut piece))
            .await
            .expect("bytes or the end of the stream before the timeout");
        let count = count.unwrap_or(0);
        self.read.extend_from_slice(&piece[..count]);
        count > 0
    }

    pub async fn send_request(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        self.write(&[head.as_bytes(), body].concat()).await;
    }

    pub async fn answer(&mut self) -> HttpResponse {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.read_more().await, "a complete response header");
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = HttpResponse {
            status,
            head,
            body: String::new(),
        };
        let length = answer
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        while self.read.len() < length {
            assert!(self.read_more().await, "a complete response body");
        }
        answer.body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        answer
    }

    pub async fn request(&mut self, method: &str, target: &str, body: &[u8]) -> HttpResponse {
        self.send_request(method, target, "", body).await;
        self.answer().await
    }
}

/// Client of a polling session.
pub struct PollingClient {
    pub address: SocketAddr,
    pub target: String,
    get: Wire,
    post: Wire,
}

pub fn sid_of(open: &str) -> String {
    let open: serde_json::Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
    open["sid"].as_str().unwrap().to_owned()
}

impl PollingClient {
    /// `path` is `/engine.io/` or `/socket.io/`.
    pub async fn open(address: SocketAddr, path: &str) -> Self {
        let mut get = Wire::open(address).await;
        let answer = get
            .request("GET", &format!("{path}?EIO=4&transport=polling"), b"")
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let sid = sid_of(&answer.body);
        Self {
            address,
            target: format!("{path}?EIO=4&transport=polling&sid={sid}"),
            get,
            post: Wire::open(address).await,
        }
    }

    pub async fn get(&mut self) -> HttpResponse {
        self.get.request("GET", &self.target, b"").await
    }

    /// Sends a poll without waiting for its response; [`PollingClient::finish_poll`] waits for it.
    pub async fn start_poll(&mut self) {
        self.get.send_request("GET", &self.target, "", b"").await;
    }

    pub async fn finish_poll(&mut self) -> HttpResponse {
        self.get.answer().await
    }

    pub async fn post(&mut self, body: &[u8]) -> HttpResponse {
        self.post.request("POST", &self.target, body).await
    }

    pub async fn say(&mut self, body: &str) {
        let answer = self.post(body.as_bytes()).await;
        assert_eq!((answer.status, &*answer.body), (200, "ok"));
    }

    /// Polls until the session is closed. Returns the bodies.
    pub async fn poll_until_closed(&mut self) -> Vec<String> {
        let mut fetched = Vec::new();
        loop {
            let answer = self.get().await;
            match answer.status {
                200 => fetched.push(answer.body),
                400 => return fetched,
                status => panic!("{status}: {answer:?}"),
            }
        }
    }
}

/// Message of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceivedMessage {
    Text(String),
    Binary(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    /// The connection has ended.
    End,
}

pub fn text(text: &str) -> ReceivedMessage {
    ReceivedMessage::Text(text.into())
}

pub struct RawWebSocket {
    wire: Wire,
}

pub fn handshake(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{headers}\r\n").into_bytes()
}

/// Encodes a client frame.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut all = vec![first];
    match payload.len() {
        len @ 0..126 => all.push(0x80 | len as u8),
        len @ 126..0x1_0000 => all.extend([0xfe, (len >> 8) as u8, len as u8]),
        len => {
            all.push(0xff);
            all.extend((len as u64).to_be_bytes());
        }
    }
    all.extend(MASK);
    let begin = all.len();
    all.extend(payload);
    frame::apply_mask(&mut all[begin..], MASK, 0);
    all
}

impl RawWebSocket {
    /// Opens a WebSocket. Returns the response if the server rejects it.
    pub async fn try_open(address: SocketAddr, target: &str) -> Result<Self, HttpResponse> {
        let mut wire = Wire::open(address).await;
        wire.write(&handshake(target, "")).await;
        let answer = wire.answer().await;
        if answer.status == 101 {
            Ok(Self { wire })
        } else {
            Err(answer)
        }
    }

    /// Opens a session over WebSocket and reads its open packet.
    pub async fn open(address: SocketAddr, path: &str) -> Self {
        let target = format!("{path}?EIO=4&transport=websocket");
        let mut ws = Self::try_open(address, &target).await.unwrap();
        assert!(matches!(ws.next().await, ReceivedMessage::Text(open) if open.starts_with("0{")));
        ws
    }

    /// Uses a connection whose handshake is done.
    pub fn from_connection(wire: Wire) -> Self {
        Self { wire }
    }

    pub async fn say(&mut self, text: &str) {
        self.send_bytes(&frame(0x81, text.as_bytes())).await;
    }

    pub async fn send_binary(&mut self, bytes: &[u8]) {
        self.send_bytes(&frame(0x82, bytes)).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.wire.write(bytes).await;
    }

    pub async fn next(&mut self) -> ReceivedMessage {
        loop {
            if let Some((got, length)) = parse(&self.wire.read) {
                self.wire.read.drain(..length);
                return got;
            }
            if !self.wire.read_more().await {
                return ReceivedMessage::End;
            }
        }
    }

    /// Returns the next message, which must be text.
    pub async fn text(&mut self) -> String {
        match self.next().await {
            ReceivedMessage::Text(text) => text,
            other => panic!("expected a text message, got {other:?}"),
        }
    }

    /// Reads until the connection ends. Returns the code of the close frame.
    pub async fn wait_for_close(&mut self) -> Option<u16> {
        let mut code = None;
        loop {
            match self.next().await {
                ReceivedMessage::Close(said) => code = said,
                ReceivedMessage::End => return code,
                _ => {}
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Option<(ReceivedMessage, usize)> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    assert_eq!(second & 0x80, 0, "a server frame is not masked");
    assert_eq!(first & 0xf0, 0x80, "a server frame is not fragmented");
    let (length, begin) = match second {
        126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        127 => (u64::from_be_bytes(*rest.first_chunk()?) as usize, 10),
        short => (usize::from(short), 2),
    };
    let payload = bytes.get(begin..begin + length)?.to_vec();
    let got = match first & 0x0f {
        1 => ReceivedMessage::Text(String::from_utf8(payload).unwrap()),
        2 => ReceivedMessage::Binary(payload),
        8 => ReceivedMessage::Close(payload.first_chunk().map(|code| u16::from_be_bytes(*code))),
        10 => ReceivedMessage::Pong(payload),
        other => panic!("opcode {other}"),
    };
    Some((got, begin + length))
}
