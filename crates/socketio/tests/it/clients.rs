//! HTTP and WebSocket client that writes raw bytes, so that it can also break the protocols.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parlor_socketio::engine_io::{EngineIoServer, SessionHandler};
use parlor_testkit::{HttpConnection, HttpResponse, decode_server_frame, encode_client_frame};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::echo::{EchoServers, Settings, accept, downcast_upgraded};

/// Longer than any step takes; only a failing test waits for it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

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
pub fn without_timeouts() -> Settings {
    Settings {
        ping_interval: Duration::from_secs(300),
        ping_timeout: Duration::from_secs(200),
        max_payload: 100_000,
        connect_timeout: Duration::from_secs(300),
        auth_delay: Duration::ZERO,
    }
}

pub async fn start_echo_server(settings: Settings) -> EchoServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(EchoServers::new(settings).serve(listener));
    EchoServer { address, task }
}

/// Serves an Engine.IO server on a free port, without its timers.
pub async fn serve_engine<H: SessionHandler>(
    engine: &Arc<EngineIoServer<H>>,
) -> (SocketAddr, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let engine = Arc::clone(engine);
    let accepting = accept(listener, move |request, client| {
        let engine = Arc::clone(&engine);
        async move {
            engine
                .handle_request(request, client, downcast_upgraded)
                .await
        }
    });
    (address, tokio::spawn(accepting))
}

/// Connection that fails the test if a response takes too long.
pub struct RawConnection(HttpConnection);

impl RawConnection {
    pub async fn open(address: SocketAddr) -> Self {
        Self(HttpConnection::open(address).await.unwrap())
    }

    /// Stream of the connection, without bytes that were read already.
    pub fn into_stream(self) -> TcpStream {
        self.0.stream.into_inner()
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        // The server may have closed the connection already.
        let _ = self.0.write(bytes).await;
    }

    /// Reads more bytes into `unread`. Returns false at the end of the stream.
    async fn read_more(&mut self, unread: &mut Vec<u8>) -> bool {
        let count = timeout(TEST_TIMEOUT, self.0.stream.read_buf(unread)).await;
        count
            .expect("bytes or the end of the stream before the timeout")
            .is_ok_and(|count| count > 0)
    }

    pub async fn send_request(&mut self, method: &str, target: &str, body: &[u8]) {
        let _ = self.0.send(method, target, &[], body).await;
    }

    pub async fn read_response(&mut self) -> HttpResponse {
        let response = timeout(TEST_TIMEOUT, self.0.read_response(true)).await;
        response.expect("a response before the timeout").unwrap()
    }

    pub async fn request(&mut self, method: &str, target: &str, body: &[u8]) -> HttpResponse {
        self.send_request(method, target, body).await;
        self.read_response().await
    }
}

/// Client of a polling session.
pub struct PollingClient {
    pub address: SocketAddr,
    pub target: String,
    get: RawConnection,
    post: RawConnection,
}

pub fn sid_of(open: &str) -> String {
    let open: serde_json::Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
    open["sid"].as_str().unwrap().to_owned()
}

impl PollingClient {
    /// `path` is `/engine.io/` or `/socket.io/`.
    pub async fn open(address: SocketAddr, path: &str) -> Self {
        let mut get = RawConnection::open(address).await;
        let response = get
            .request("GET", &format!("{path}?EIO=4&transport=polling"), b"")
            .await;
        assert_eq!(response.status, 200, "{response:?}");
        let sid = sid_of(&response.body);
        Self {
            address,
            target: format!("{path}?EIO=4&transport=polling&sid={sid}"),
            get,
            post: RawConnection::open(address).await,
        }
    }

    pub async fn get(&mut self) -> HttpResponse {
        self.get.request("GET", &self.target, b"").await
    }

    /// Sends a poll without waiting for its response; [`PollingClient::finish_poll`] waits for it.
    pub async fn start_poll(&mut self) {
        self.get.send_request("GET", &self.target, b"").await;
    }

    pub async fn finish_poll(&mut self) -> HttpResponse {
        self.get.read_response().await
    }

    pub async fn post(&mut self, body: &[u8]) -> HttpResponse {
        self.post.request("POST", &self.target, body).await
    }

    pub async fn post_packets(&mut self, body: &str) {
        let response = self.post(body.as_bytes()).await;
        assert_eq!((response.status, &*response.body), (200, "ok"));
    }

    /// Polls until the session is closed. Returns the bodies.
    pub async fn poll_until_closed(&mut self) -> Vec<String> {
        let mut bodies = Vec::new();
        loop {
            let response = self.get().await;
            match response.status {
                200 => bodies.push(response.body),
                400 => return bodies,
                status => panic!("{status}: {response:?}"),
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
    pub connection: RawConnection,
    /// Bytes of an incomplete frame.
    unread: Vec<u8>,
}

pub fn handshake(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{headers}\r\n").into_bytes()
}

impl RawWebSocket {
    /// Opens a WebSocket. Returns the response if the server rejects it.
    pub async fn try_open(address: SocketAddr, target: &str) -> Result<Self, HttpResponse> {
        let mut connection = RawConnection::open(address).await;
        connection.write(&handshake(target, "")).await;
        let response = connection.read_response().await;
        if response.status == 101 {
            Ok(Self::from_connection(connection))
        } else {
            Err(response)
        }
    }

    /// Opens a session over WebSocket and reads its open packet.
    pub async fn open(address: SocketAddr, path: &str) -> Self {
        Self::open_with_query(address, path, "EIO=4&transport=websocket").await
    }

    pub async fn open_with_query(address: SocketAddr, path: &str, query: &str) -> Self {
        let target = format!("{path}?{query}");
        let mut ws = Self::try_open(address, &target).await.unwrap();
        assert!(matches!(ws.next().await, ReceivedMessage::Text(open) if open.starts_with("0{")));
        ws
    }

    /// Opens a session of `/socket.io/` with a socket. Also returns the payload of the server's CONNECT packet.
    pub async fn connect(address: SocketAddr, auth: &str) -> (Self, serde_json::Value) {
        let mut ws = Self::open(address, "/socket.io/").await;
        let payload = ws.connect_namespace(auth).await;
        (ws, payload)
    }

    /// Sends a CONNECT packet. Returns the payload of the server's CONNECT packet.
    pub async fn connect_namespace(&mut self, auth: &str) -> serde_json::Value {
        self.send_text(&format!("40{auth}")).await;
        let reply = self.packet().await;
        let payload = reply.strip_prefix("40").expect(&reply);
        serde_json::from_str(payload).unwrap()
    }

    /// Uses a connection whose handshake is done.
    pub fn from_connection(connection: RawConnection) -> Self {
        Self {
            connection,
            unread: Vec::new(),
        }
    }

    pub async fn send_text(&mut self, text: &str) {
        self.send_bytes(&encode_client_frame(0x81, text.as_bytes()))
            .await;
    }

    pub async fn send_binary(&mut self, bytes: &[u8]) {
        self.send_bytes(&encode_client_frame(0x82, bytes)).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.connection.write(bytes).await;
    }

    pub async fn next(&mut self) -> ReceivedMessage {
        loop {
            if let Some((message, length)) = parse_message(&self.unread) {
                self.unread.drain(..length);
                return message;
            }
            if !self.connection.read_more(&mut self.unread).await {
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

    /// Returns the next text message; answers and skips pings.
    pub async fn packet(&mut self) -> String {
        loop {
            match self.text().await {
                ping if ping == "2" => self.send_text("3").await,
                packet => return packet,
            }
        }
    }

    /// Reads until the connection ends. Returns the code of the close frame.
    pub async fn wait_for_close(&mut self) -> Option<u16> {
        let mut code = None;
        loop {
            match self.next().await {
                ReceivedMessage::Close(received) => code = received,
                ReceivedMessage::End => return code,
                _ => {}
            }
        }
    }
}

fn parse_message(bytes: &[u8]) -> Option<(ReceivedMessage, usize)> {
    let len7 = bytes.get(1)?;
    assert_eq!(len7 & 0x80, 0, "a server frame is not masked");
    let (first, payload, length) = decode_server_frame(bytes)?;
    assert_eq!(first & 0xf0, 0x80, "a server frame is not fragmented");
    let message = match first & 0x0f {
        1 => ReceivedMessage::Text(std::str::from_utf8(payload).unwrap().into()),
        2 => ReceivedMessage::Binary(payload.to_vec()),
        8 => ReceivedMessage::Close(payload.first_chunk().map(|code| u16::from_be_bytes(*code))),
        10 => ReceivedMessage::Pong(payload.to_vec()),
        other => panic!("opcode {other}"),
    };
    Some((message, length))
}
