//! Server whose handler records its calls, and a WebSocket client that sends raw frames.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use parlor_socketio::{
    Client, ConnectError, ConnectRequest, DisconnectReason, EncodedEvent, HandlerFuture,
    IncomingEvent, RecoveryOptions, Socket, SocketHandler, SocketIoOptions, SocketIoServer,
    UpgradedTcpStream,
};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Longer than any step takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Handler that records its calls and can be blocked.
pub struct RecordingHandler {
    pub wait_for_call: Mutex<Vec<String>>,
    pub slow_event_permits: Semaphore,
    pub refuse_connects: AtomicBool,
    pub hold_connects: AtomicBool,
    /// Blocks a thread in `on_connected`.
    pub block_on_connected: AtomicBool,
}

impl RecordingHandler {
    fn record(&self, line: impl Into<String>) {
        self.wait_for_call.lock().push(line.into());
    }

    fn block_while_set(&self) {
        let patience = Instant::now() + PATIENCE;
        while self.block_on_connected.load(Ordering::SeqCst) && Instant::now() < patience {
            std::thread::yield_now();
        }
    }

    pub fn calls(&self) -> Vec<String> {
        self.wait_for_call.lock().clone()
    }
}

fn refused() -> ConnectError {
    let payload = RawValue::from_string(r#"{"message":"no"}"#.into());
    ConnectError {
        payload: payload.unwrap(),
    }
}

impl SocketHandler for RecordingHandler {
    type State = ();

    async fn on_connect(self: &Arc<Self>, asking: ConnectRequest) -> Result<(), ConnectError> {
        self.record("connect");
        if self.hold_connects.load(Ordering::SeqCst) {
            self.slow_event_permits.acquire().await.unwrap().forget();
        }
        assert_eq!(asking.id.len(), 20);
        match self.refuse_connects.load(Ordering::SeqCst) {
            true => Err(refused()),
            false => Ok(()),
        }
    }

    fn on_connected(self: &Arc<Self>, _: &Arc<Socket<()>>) -> Option<HandlerFuture> {
        if self.block_on_connected.load(Ordering::SeqCst) {
            tokio::task::block_in_place(|| self.block_while_set());
        }
        self.record("connected");
        None
    }

    fn on_event(
        self: &Arc<Self>,
        socket: &Arc<Socket<()>>,
        event: &IncomingEvent<'_>,
    ) -> Option<HandlerFuture> {
        self.record(event.name());
        match event.name() {
            "echo" => {
                if let Some(id) = event.ack_id() {
                    socket.ack(id, event.args().as_bytes());
                }
                None
            }
            "slow" => {
                let (app, socket, id) = (Arc::clone(self), Arc::clone(socket), event.ack_id());
                Some(Box::pin(async move {
                    app.slow_event_permits.acquire().await.unwrap().forget();
                    if let Some(id) = id {
                        socket.ack(id, b"\"slow\"");
                    }
                }))
            }
            "break" => Some(Box::pin(async {
                tokio::task::yield_now().await;
                panic!("handler panics on purpose");
            })),
            "leave" => {
                socket.send(&EncodedEvent::new("last", b"1"));
                socket.disconnect(DisconnectReason::ServerDisconnect);
                None
            }
            _ => None,
        }
    }

    fn on_detached(self: &Arc<Self>, _: &Arc<Socket<()>>, reason: DisconnectReason) {
        self.record(format!("detached {}", reason.name()));
    }

    async fn on_recover(
        self: &Arc<Self>,
        socket: &Arc<Socket<()>>,
        asking: ConnectRequest,
    ) -> Result<bool, ConnectError> {
        assert_eq!(asking.id, socket.id());
        self.record("recover");
        match self.refuse_connects.load(Ordering::SeqCst) {
            true => Err(refused()),
            false => Ok(true),
        }
    }

    fn on_disconnected(self: &Arc<Self>, _: &Arc<Socket<()>>, reason: DisconnectReason) {
        self.record(format!("disconnected {}", reason.name()));
    }
}

/// Server of a test; stops when it is dropped.
pub struct TestServer {
    pub address: SocketAddr,
    pub server: Arc<SocketIoServer<RecordingHandler>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn take_back(upgraded: Upgraded) -> Result<UpgradedTcpStream, Upgraded> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>()?;
    Ok(UpgradedTcpStream {
        stream: parts.io.into_inner(),
        read_buf: parts.read_buf,
        unsent_response: Bytes::new(),
    })
}

pub fn recovery_enabled() -> SocketIoOptions {
    SocketIoOptions {
        recovery: Some(RecoveryOptions {
            window: Duration::from_secs(60),
            max_frames: 5,
            max_bytes: 10_000,
        }),
        ..SocketIoOptions::default()
    }
}

pub async fn start_test_server(options: SocketIoOptions) -> TestServer {
    let app = Arc::new(RecordingHandler {
        wait_for_call: Mutex::default(),
        slow_event_permits: Semaphore::new(0),
        refuse_connects: AtomicBool::new(false),
        hold_connects: AtomicBool::new(false),
        block_on_connected: AtomicBool::new(false),
    });
    let server = SocketIoServer::new(app, options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let timers = tokio::spawn(Arc::clone(&server).run_timers());
    let doors = tokio::spawn(accept(listener, Arc::clone(&server)));
    TestServer {
        address,
        server,
        tasks: vec![timers, doors],
    }
}

async fn accept(listener: TcpListener, server: Arc<SocketIoServer<RecordingHandler>>) {
    loop {
        let (stream, from) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let client = Client {
                    address: Some(from.ip()),
                    ..Client::default()
                };
                let server = Arc::clone(&server);
                async move {
                    let answer = server.handle_request(request, client, take_back).await;
                    Ok::<Response<_>, std::convert::Infallible>(answer)
                }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .with_upgrades()
                .await;
        });
    }
}

impl TestServer {
    pub fn app(&self) -> &Arc<RecordingHandler> {
        self.server.handler()
    }

    /// Sends a recoverable event to all sockets.
    pub fn broadcast(&self, name: &str) {
        let frame = self.server.encode_recoverable_event(name, b"1");
        self.server.for_each_socket(|socket| socket.send(&frame));
    }

    /// Waits until the handler has recorded this call.
    pub async fn calls(&self, line: &str) {
        eventually(line, || self.app().calls().iter().any(|it| it == line)).await;
    }
}

/// Waits until the condition holds.
pub async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    parlor_testkit::eventually(what, async || is_so()).await;
}

/// Message of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    Text(String),
    Close(u16),
    End,
}

pub struct Ws {
    pub stream: TcpStream,
    read: Vec<u8>,
    ready: VecDeque<Got>,
}

impl Ws {
    /// Opens a session without a socket.
    pub async fn open(address: SocketAddr) -> Self {
        Self::open_with_query(address, "EIO=4&transport=websocket").await
    }

    /// Opens a session with this query.
    pub async fn open_with_query(address: SocketAddr, query: &str) -> Self {
        let mut ws = Self {
            stream: TcpStream::connect(address).await.unwrap(),
            read: Vec::new(),
            ready: VecDeque::new(),
        };
        let request = format!(
            "GET /socket.io/?{query} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
            Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        ws.stream.write_all(request.as_bytes()).await.unwrap();
        let end = loop {
            if let Some(at) = ws.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(ws.more().await);
        };
        assert!(ws.read.starts_with(b"HTTP/1.1 101"));
        ws.read.drain(..end);
        assert!(ws.text().await.starts_with("0{"));
        ws
    }

    /// Opens a session with a socket. Also returns the payload of the server's CONNECT packet.
    pub async fn connect(address: SocketAddr, auth: &str) -> (Self, serde_json::Value) {
        let mut ws = Self::open(address).await;
        let hello = ws.connect_namespace(auth).await;
        (ws, hello)
    }

    /// Sends a CONNECT packet. Returns the payload of the server's CONNECT packet.
    pub async fn connect_namespace(&mut self, auth: &str) -> serde_json::Value {
        self.say(&format!("40{auth}")).await;
        let answer = self.text().await;
        let payload = answer.strip_prefix("40").expect(&answer);
        serde_json::from_str(payload).unwrap()
    }

    async fn more(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        let read = timeout(PATIENCE, self.stream.read(&mut piece)).await;
        let count = read.expect("bytes before the timeout").unwrap_or(0);
        self.read.extend_from_slice(&piece[..count]);
        count > 0
    }

    pub async fn say(&mut self, text: &str) {
        let mut frame = vec![0x81];
        match u8::try_from(text.len()) {
            Ok(short) if short < 126 => frame.push(0x80 | short),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload unchanged.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        let _ = self.stream.write_all(&frame).await;
    }

    pub async fn next_message(&mut self) -> Got {
        loop {
            self.parse();
            if let Some(got) = self.ready.pop_front() {
                return got;
            }
            if !self.more().await {
                return Got::End;
            }
        }
    }

    /// Returns the next text message; answers and skips pings.
    pub async fn text(&mut self) -> String {
        loop {
            match self.next_message().await {
                Got::Text(text) if text == "2" => self.say("3").await,
                Got::Text(text) => return text,
                other => panic!("expected a text message, got {other:?}"),
            }
        }
    }

    fn parse(&mut self) {
        while let Some((&[first, short], rest)) = self.read.split_first_chunk() {
            let (length, head) = match short {
                126 if rest.len() >= 2 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), 4),
                127 if rest.len() >= 8 => {
                    let length: [u8; 8] = rest[..8].try_into().unwrap();
                    (usize::try_from(u64::from_be_bytes(length)).unwrap(), 10)
                }
                126 | 127 => return,
                short => (usize::from(short), 2),
            };
            if self.read.len() < head + length {
                return;
            }
            let payload = self
                .read
                .drain(..head + length)
                .skip(head)
                .collect::<Vec<_>>();
            self.ready.push_back(match first & 0x0f {
                8 => Got::Close(u16::from_be_bytes([payload[0], payload[1]])),
                _ => Got::Text(String::from_utf8(payload).unwrap()),
            });
        }
    }
}

/// Sends one request on its own connection. Returns status and body.
pub async fn request(address: SocketAddr, method: &str, query: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} /socket.io/?EIO=4&transport=polling{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    read.expect("a response before the timeout").unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

/// Opens a polling session. Returns its query.
pub async fn open_polling_session(address: SocketAddr) -> String {
    let (status, body) = request(address, "GET", "", "").await;
    assert_eq!(status, 200, "{body}");
    let open: serde_json::Value = serde_json::from_str(&body[1..]).unwrap();
    format!("&sid={}", open["sid"].as_str().unwrap())
}
