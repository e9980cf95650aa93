//! Many Socket.IO clients in one thread: raw WebSockets over one epoll.
//!
//! Always true:
//! 1. A frame is read once and told as its kind, in the order of its connection; pings are answered here.
//! 2. What the socket does not take is kept and goes out when it does, before anything later.
//! 3. A refusal is an error that carries what the server said, unless refusals are asked for: then it is told as
//!    [`Kind::Refused`], and what was said is kept. A lost connection is told as [`Kind::Close`], once.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt::set_socket_linger;

use super::frames::{self, ReceivedKind};

/// More than a socket's buffer gives at once, as a rule.
const BUFFER: usize = 256 * 1024;
const EVENTS: usize = 1_024;
/// Between two looks at sockets with nothing new.
const POLL_SLEEP: Duration = Duration::from_micros(200);
/// How long the other side may take to close what was taken leave of.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What somebody was told.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedFrame {
    /// The number of the client, in the order of [`Swarm::connect`].
    pub client: usize,
    /// What it was.
    pub kind: ReceivedKind,
    /// When: exact where stamps are asked for, otherwise when the turn began.
    pub received_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientStage {
    /// The TCP connection is being made.
    Connecting,
    /// The request is out.
    Upgrading,
    /// Frames go both ways.
    Open,
    Closed,
}

struct PooledClient {
    stream: TcpStream,
    stage: ClientStage,
    /// The CONNECT packet with the token.
    auth: Vec<u8>,
    /// What came of an unfinished frame.
    read_buffer: Vec<u8>,
    /// What the socket did not take.
    write_buffer: Vec<u8>,
}

/// The clients.
pub struct ClientPool {
    address: SocketAddr,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    clients: Vec<PooledClient>,
    /// Whether messages are told with their stamp.
    pub reads_stamps: bool,
    /// Who was refused and by what words, in the order of the last turn; none where a refusal is an error.
    pub rejections: Option<Vec<(usize, String)>>,
}

impl ClientPool {
    /// Nobody yet.
    pub fn new(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self {
            address,
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS),
            buffer: vec![0; BUFFER],
            clients: Vec::new(),
            reads_stamps: false,
            rejections: None,
        })
    }

    /// Begins to connect one more, who will be told [`Kind::Connected`].
    pub fn connect(&mut self, token: &str, device: &str) -> anyhow::Result<usize> {
        let who = self.clients.len();
        let client = self.start_connecting(who, token, device)?;
        self.clients.push(client);
        Ok(who)
    }

    /// Begins to connect somebody again, whose last connection is given up.
    pub fn connect_again(&mut self, who: usize, token: &str, device: &str) -> anyhow::Result<()> {
        // No port waits for late packets.
        let _ = set_socket_linger(&self.clients[who].stream, Some(Duration::ZERO));
        self.clients[who] = self.start_connecting(who, token, device)?;
        Ok(())
    }

    fn start_connecting(
        &self,
        who: usize,
        token: &str,
        device: &str,
    ) -> anyhow::Result<PooledClient> {
        let mut stream = TcpStream::connect(self.address)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(who), both)?;
        let auth = format!("40{{\"token\":\"{token}\",\"deviceId\":\"{device}\"}}");
        Ok(PooledClient {
            stream,
            stage: ClientStage::Connecting,
            auth: frames::text_frame(&auth),
            read_buffer: Vec::new(),
            write_buffer: Vec::new(),
        })
    }

    /// Sends a frame, or as much of it as the socket takes now.
    pub fn send(&mut self, who: usize, frame: &[u8]) -> anyhow::Result<()> {
        self.clients[who].write(frame)
    }

    /// Waits for something at most this long; what was told is put into `told`, which is emptied first.
    pub fn poll_once(
        &mut self,
        wait: Duration,
        told: &mut Vec<ReceivedFrame>,
    ) -> anyhow::Result<()> {
        told.clear();
        match self.await_events(wait) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            done => done?,
        }
        if let Some(refusals) = &mut self.rejections {
            refusals.clear();
        }
        let mut at = Instant::now();
        for event in &self.events {
            let who = event.token().0;
            let client = &mut self.clients[who];
            if self.reads_stamps {
                at = Instant::now();
            }
            let mut tell = |kind| {
                told.push(ReceivedFrame {
                    client: who,
                    kind,
                    received_at: at,
                })
            };
            let done = client.on_ready(
                event,
                self.address,
                &mut self.buffer,
                self.reads_stamps,
                &mut tell,
            );
            match (done, &mut self.rejections) {
                (Ok(()), _) => {}
                (Err(error), None) => return Err(error),
                (Err(error), Some(refusals)) => {
                    client.stage = ClientStage::Closed;
                    tell(ReceivedKind::Rejected);
                    refusals.push((who, error.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Where no moments are taken it does not sleep on its sockets: a server would pay for waking it with every write, which
    /// no server does for clients on other machines.
    fn await_events(&mut self, wait: Duration) -> std::io::Result<()> {
        if self.reads_stamps {
            return self.poll.poll(&mut self.events, Some(wait));
        }
        let deadline = Instant::now() + wait;
        loop {
            self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
            if !self.events.is_empty() || Instant::now() >= deadline {
                return Ok(());
            }
            std::thread::sleep(POLL_SLEEP);
        }
    }

    /// Everybody says goodbye and goes.
    pub fn disconnect_all(mut self) -> anyhow::Result<()> {
        let goodbye = frames::disconnect_frames();
        for client in &mut self.clients {
            // One that is gone is gone.
            let _ = client.write(&goodbye);
        }
        let (deadline, mut told) = (Instant::now() + CLOSE_TIMEOUT, Vec::new());
        while self
            .clients
            .iter()
            .any(|it| it.stage != ClientStage::Closed)
            && Instant::now() < deadline
        {
            self.poll_once(Duration::from_millis(20), &mut told)?;
        }
        for client in &self.clients {
            // No port waits for late packets: there are as many connections as there are ports.
            let _ = set_socket_linger(&client.stream, Some(Duration::ZERO));
        }
        Ok(())
    }
}

impl PooledClient {
    fn on_ready(
        &mut self,
        event: &Event,
        address: SocketAddr,
        buffer: &mut [u8],
        stamps: bool,
        tell: &mut impl FnMut(ReceivedKind),
    ) -> anyhow::Result<()> {
        if event.is_writable() && self.stage != ClientStage::Closed {
            self.writable(address)?;
        }
        if event.is_readable() {
            let to_the_end = event.is_read_closed() || event.is_error();
            self.readable(buffer, to_the_end, stamps, tell)?;
        }
        Ok(())
    }

    fn writable(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        if self.stage == ClientStage::Connecting {
            if let Some(error) = self.stream.take_error()? {
                bail!("the server does not accept a connection: {error}");
            }
            self.stage = ClientStage::Upgrading;
            let request = format!(
                "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            self.stream.set_nodelay(true)?;
            return self.write(request.as_bytes());
        }
        let waiting = std::mem::take(&mut self.write_buffer);
        self.write(&waiting)
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut rest = bytes;
        while self.write_buffer.is_empty() && !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(taken) => rest = &rest[taken..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // Its end is told by the next read.
                Err(_) => return Ok(()),
            }
        }
        self.write_buffer.extend_from_slice(rest);
        Ok(())
    }

    fn readable(
        &mut self,
        buffer: &mut [u8],
        to_the_end: bool,
        stamps: bool,
        tell: &mut impl FnMut(ReceivedKind),
    ) -> anyhow::Result<()> {
        while self.stage != ClientStage::Closed {
            match self.stream.read(buffer) {
                Ok(0) => self.on_closed(tell),
                Ok(length) => {
                    self.handle_bytes(&buffer[..length], stamps, tell)?;
                    // Less than there was room for: there is no more, unless it has ended.
                    if length < buffer.len() && !to_the_end {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => self.on_closed(tell),
            }
        }
        Ok(())
    }

    fn on_closed(&mut self, tell: &mut impl FnMut(ReceivedKind)) {
        self.stage = ClientStage::Closed;
        tell(ReceivedKind::Close);
    }

    fn handle_bytes(
        &mut self,
        bytes: &[u8],
        stamps: bool,
        tell: &mut impl FnMut(ReceivedKind),
    ) -> anyhow::Result<()> {
        let mut joined = std::mem::take(&mut self.read_buffer);
        let mut rest = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        if self.stage == ClientStage::Upgrading {
            let Some(end) = rest.windows(4).position(|it| it == b"\r\n\r\n") else {
                self.read_buffer = rest.to_vec();
                return Ok(());
            };
            let answer = String::from_utf8_lossy(&rest[..end]);
            ensure!(answer.starts_with("HTTP/1.1 101"), "rejected: {answer}");
            rest = &rest[end + 4..];
            self.stage = ClientStage::Open;
        }
        while let Some((head, payload, used)) = frames::split_first_frame(rest) {
            match frames::classify(head, payload, stamps) {
                ReceivedKind::Open => {
                    let auth = std::mem::take(&mut self.auth);
                    self.write(&auth)?;
                }
                ReceivedKind::Ping => self.write(&frames::text_frame("3"))?,
                ReceivedKind::Rejected => bail!("rejected: {}", String::from_utf8_lossy(payload)),
                // The end of the stream follows.
                ReceivedKind::Close => {}
                kind => tell(kind),
            }
            rest = &rest[used..];
        }
        self.read_buffer = rest.to_vec();
        Ok(())
    }
}

/// The most clients that this process may have open, with some left for itself.
pub fn max_clients() -> anyhow::Result<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = limit.current.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(200)).context("the limit of open files is too large")
}
