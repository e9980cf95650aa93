//! A server whose application writes down all it is told, and a WebSocket client that does what it is told byte by byte.

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
    App, Client, Connect, Event, Frame, Options, Reason, Recovery, Refused, Server, Socket, Taken,
    Work,
};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Longer than anything takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// An application that can be held up.
pub struct Diary {
    pub told: Mutex<Vec<String>>,
    pub gate: Semaphore,
    pub refuses: AtomicBool,
    pub holds_connect: AtomicBool,
    /// Keeps a thread from going on in `connected`.
    pub blocks_connected: AtomicBool,
}

impl Diary {
    fn write(&self, line: impl Into<String>) {
        self.told.lock().push(line.into());
    }

    fn wait_to_connect(&self) {
        let patience = Instant::now() + PATIENCE;
        while self.blocks_connected.load(Ordering::SeqCst) && Instant::now() < patience {
            std::thread::yield_now();
        }
    }

    pub fn lines(&self) -> Vec<String> {
        self.told.lock().clone()
    }
}

fn refused() -> Refused {
    let payload = RawValue::from_string(r#"{"message":"no"}"#.into());
    Refused {
        payload: payload.unwrap(),
    }
}

impl App for Diary {
    type State = ();

    async fn connect(self: &Arc<Self>, asking: Connect) -> Result<(), Refused> {
        self.write("connect");
        if self.holds_connect.load(Ordering::SeqCst) {
            self.gate.acquire().await.unwrap().forget();
        }
        assert_eq!(asking.id.len(), 20);
        match self.refuses.load(Ordering::SeqCst) {
            true => Err(refused()),
            false => Ok(()),
        }
    }

    fn connected(self: &Arc<Self>, _: &Arc<Socket<()>>) -> Option<Work> {
        if self.blocks_connected.load(Ordering::SeqCst) {
            tokio::task::block_in_place(|| self.wait_to_connect());
        }
        self.write("connected");
        None
    }

    fn event(self: &Arc<Self>, socket: &Arc<Socket<()>>, event: &Event<'_>) -> Option<Work> {
        self.write(event.name());
        match event.name() {
            "echo" => {
                if let Some(id) = event.ack() {
                    socket.ack(id, event.args().as_bytes());
                }
                None
            }
            "slow" => {
                let (app, socket, id) = (Arc::clone(self), Arc::clone(socket), event.ack());
                Some(Box::pin(async move {
                    app.gate.acquire().await.unwrap().forget();
                    if let Some(id) = id {
                        socket.ack(id, b"\"slow\"");
                    }
                }))
            }
            "break" => Some(Box::pin(async {
                tokio::task::yield_now().await;
                panic!("on purpose");
            })),
            "leave" => {
                socket.send(&Frame::event("last", b"1"));
                socket.disconnect(Reason::ServerCut);
                None
            }
            _ => None,
        }
    }

    fn detached(self: &Arc<Self>, _: &Arc<Socket<()>>, reason: Reason) {
        self.write(format!("detached {}", reason.name()));
    }

    async fn recover(
        self: &Arc<Self>,
        socket: &Arc<Socket<()>>,
        asking: Connect,
    ) -> Result<bool, Refused> {
        assert_eq!(asking.id, socket.id());
        self.write("recover");
        match self.refuses.load(Ordering::SeqCst) {
            true => Err(refused()),
            false => Ok(true),
        }
    }

    fn disconnected(self: &Arc<Self>, _: &Arc<Socket<()>>, reason: Reason) {
        self.write(format!("disconnected {}", reason.name()));
    }
}

/// A server, ended with the test.
pub struct Host {
    pub address: SocketAddr,
    pub server: Arc<Server<Diary>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Host {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn take_back(upgraded: Upgraded) -> Result<Taken, Upgraded> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>()?;
    Ok(Taken {
        stream: parts.io.into_inner(),
        ahead: parts.read_buf,
        owed: Bytes::new(),
    })
}

pub fn recovering() -> Options {
    Options {
        recovery: Some(Recovery {
            window: Duration::from_secs(60),
            frames: 5,
            bytes: 10_000,
        }),
        ..Options::default()
    }
}

pub async fn host(options: Options) -> Host {
    let app = Arc::new(Diary {
        told: Mutex::default(),
        gate: Semaphore::new(0),
        refuses: AtomicBool::new(false),
        holds_connect: AtomicBool::new(false),
        blocks_connected: AtomicBool::new(false),
    });
    let server = Server::new(app, options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let timers = tokio::spawn(Arc::clone(&server).run());
    let doors = tokio::spawn(accept(listener, Arc::clone(&server)));
    Host {
        address,
        server,
        tasks: vec![timers, doors],
    }
}

async fn accept(listener: TcpListener, server: Arc<Server<Diary>>) {
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
                    let answer = server.handle(request, client, take_back).await;
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

impl Host {
    pub fn app(&self) -> &Arc<Diary> {
        self.server.app()
    }

    /// Sends an event that is kept to all sockets.
    pub fn tell(&self, name: &str) {
        let frame = self.server.frame(name, b"1");
        self.server.for_each(|socket| socket.send(&frame));
    }

    /// Waits until the application was told this.
    pub async fn told(&self, line: &str) {
        eventually(line, || self.app().lines().iter().any(|it| it == line)).await;
    }
}

/// Waits until it is so.
pub async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    parlor_testkit::eventually(what, async || is_so()).await;
}

/// What a server sent.
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
    /// A session without a socket.
    pub async fn open(address: SocketAddr) -> Self {
        Self::asking(address, "EIO=4&transport=websocket").await
    }

    /// The same, with another query.
    pub async fn asking(address: SocketAddr, query: &str) -> Self {
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

    /// A session with a socket; with the payload of its CONNECT packet.
    pub async fn connect(address: SocketAddr, auth: &str) -> (Self, serde_json::Value) {
        let mut ws = Self::open(address).await;
        let hello = ws.enter(auth).await;
        (ws, hello)
    }

    /// Asks to be connected; what the server says to it.
    pub async fn enter(&mut self, auth: &str) -> serde_json::Value {
        self.say(&format!("40{auth}")).await;
        let answer = self.text().await;
        let payload = answer.strip_prefix("40").expect(&answer);
        serde_json::from_str(payload).unwrap()
    }

    async fn more(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        let read = timeout(PATIENCE, self.stream.read(&mut piece)).await;
        let count = read.expect("bytes in time").unwrap_or(0);
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
        // A mask of zeros changes nothing.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        let _ = self.stream.write_all(&frame).await;
    }

    pub async fn got(&mut self) -> Got {
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

    /// The next text, pings answered and left out.
    pub async fn text(&mut self) -> String {
        loop {
            match self.got().await {
                Got::Text(text) if text == "2" => self.say("3").await,
                Got::Text(text) => return text,
                other => panic!("no text but {other:?}"),
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

/// One request on a connection of its own: status and body.
pub async fn request(address: SocketAddr, method: &str, query: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} /socket.io/?EIO=4&transport=polling{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
    read.expect("an answer in time").unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

/// The query that names a new polling session.
pub async fn poll(address: SocketAddr) -> String {
    let (status, body) = request(address, "GET", "", "").await;
    assert_eq!(status, 200, "{body}");
    let open: serde_json::Value = serde_json::from_str(&body[1..]).unwrap();
    format!("&sid={}", open["sid"].as_str().unwrap())
}
