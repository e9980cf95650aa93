//! A client that speaks HTTP and WebSocket byte by byte, so that it can also do what no library does.

use super::echo::{Echo, Settings};
use parlor_socketio::frame;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(30);
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const MASK: [u8; 4] = [0x9a, 0x01, 0xff, 0x42];

/// The echo server, ended with the test.
pub struct Running {
    pub address: SocketAddr,
    task: JoinHandle<std::io::Result<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// No ping and no timeout disturbs: within the time of a test a connection ends only for a reason.
pub fn calm() -> Settings {
    Settings {
        ping_interval: Duration::from_secs(300),
        ping_timeout: Duration::from_secs(200),
        max_payload: 100_000,
        connect_timeout: Duration::from_secs(300),
        apart: Duration::ZERO,
    }
}

pub async fn serve(settings: Settings) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(Echo::new(settings).serve(listener));
    Running { address, task }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// One connection.
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
        // Who was sent away may find the connection closed while it still writes.
        let _ = self.stream.write_all(bytes).await;
    }

    /// Reads more. False at the end.
    async fn more(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        let count = timeout(PATIENCE, self.stream.read(&mut piece))
            .await
            .expect("bytes or an end in time");
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

    pub async fn answer(&mut self) -> Answer {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await, "an answer before the end");
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: String::new(),
        };
        let length = answer
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        while self.read.len() < length {
            assert!(self.more().await, "a body before the end");
        }
        answer.body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        answer
    }

    pub async fn request(&mut self, method: &str, target: &str, body: &[u8]) -> Answer {
        self.send_request(method, target, "", body).await;
        self.answer().await
    }
}

/// A polling session.
pub struct Polling {
    pub address: SocketAddr,
    pub target: String,
    get: Wire,
    post: Wire,
}

pub fn sid_of(open: &str) -> String {
    let open: serde_json::Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
    open["sid"].as_str().unwrap().to_owned()
}

impl Polling {
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

    pub async fn get(&mut self) -> Answer {
        self.get.request("GET", &self.target, b"").await
    }

    /// Sends the request but does not wait for its answer, which [`Polling::parked`] does.
    pub async fn park(&mut self) {
        self.get.send_request("GET", &self.target, "", b"").await;
    }

    pub async fn parked(&mut self) -> Answer {
        self.get.answer().await
    }

    pub async fn post(&mut self, body: &[u8]) -> Answer {
        self.post.request("POST", &self.target, body).await
    }

    pub async fn say(&mut self, body: &str) {
        let answer = self.post(body.as_bytes()).await;
        assert_eq!((answer.status, &*answer.body), (200, "ok"));
    }

    /// Fetches until the session is gone; what was fetched.
    pub async fn until_gone(&mut self) -> Vec<String> {
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

/// What a server sent over a WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    Text(String),
    Binary(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    /// The connection ended.
    End,
}

pub fn text(text: &str) -> Got {
    Got::Text(text.into())
}

pub struct Ws {
    wire: Wire,
}

pub fn handshake(target: &str, headers: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n{headers}\r\n").into_bytes()
}

/// A client's frame.
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
    frame::mask(&mut all[begin..], MASK, 0);
    all
}

impl Ws {
    /// A WebSocket, or the answer that refuses it.
    pub async fn try_open(address: SocketAddr, target: &str) -> Result<Self, Answer> {
        let mut wire = Wire::open(address).await;
        wire.write(&handshake(target, "")).await;
        let answer = wire.answer().await;
        if answer.status == 101 {
            Ok(Self { wire })
        } else {
            Err(answer)
        }
    }

    /// A session that begins with its WebSocket; the open packet is read.
    pub async fn open(address: SocketAddr, path: &str) -> Self {
        let target = format!("{path}?EIO=4&transport=websocket");
        let mut ws = Self::try_open(address, &target).await.unwrap();
        assert!(matches!(ws.next().await, Got::Text(open) if open.starts_with("0{")));
        ws
    }

    /// After a handshake that was written by hand.
    pub fn over(wire: Wire) -> Self {
        Self { wire }
    }

    pub async fn say(&mut self, text: &str) {
        self.raw(&frame(0x81, text.as_bytes())).await;
    }

    pub async fn say_bytes(&mut self, bytes: &[u8]) {
        self.raw(&frame(0x82, bytes)).await;
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        self.wire.write(bytes).await;
    }

    pub async fn next(&mut self) -> Got {
        loop {
            if let Some((got, length)) = parse(&self.wire.read) {
                self.wire.read.drain(..length);
                return got;
            }
            if !self.wire.more().await {
                return Got::End;
            }
        }
    }

    /// The next text, which there must be.
    pub async fn text(&mut self) -> String {
        match self.next().await {
            Got::Text(text) => text,
            other => panic!("{other:?} instead of a text"),
        }
    }

    /// Reads to the end of the connection; the code of the close frame.
    pub async fn closed(&mut self) -> Option<u16> {
        let mut code = None;
        loop {
            match self.next().await {
                Got::Close(said) => code = said,
                Got::End => return code,
                _ => {}
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Option<(Got, usize)> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    assert_eq!(second & 0x80, 0, "a server does not mask");
    assert_eq!(first & 0xf0, 0x80, "a server sends whole frames");
    let (length, begin) = match second {
        126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), 4),
        127 => (u64::from_be_bytes(*rest.first_chunk()?) as usize, 10),
        short => (usize::from(short), 2),
    };
    let payload = bytes.get(begin..begin + length)?.to_vec();
    let got = match first & 0x0f {
        1 => Got::Text(String::from_utf8(payload).unwrap()),
        2 => Got::Binary(payload),
        8 => Got::Close(payload.first_chunk().map(|code| u16::from_be_bytes(*code))),
        10 => Got::Pong(payload),
        other => panic!("opcode {other}"),
    };
    Some((got, begin + length))
}
