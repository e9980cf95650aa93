//! Many Socket.IO clients in one thread: raw WebSockets over one epoll.
//!
//! Invariants:
//! 1. Each frame is read once and reported by its kind, in the order of its connection; pings are answered here.
//! 2. Bytes that a socket does not accept are queued and sent before later ones.
//! 3. A rejection is an error with the text of the server. If `rejections` is set, it is reported as
//!    [`ReceivedKind::Rejected`] instead, and the text is kept. A lost connection is reported as
//!    [`ReceivedKind::Close`], once.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::net::sockopt::set_socket_linger;

use super::client_frames::{self, ReceivedKind};

/// Usually more than a socket buffer returns at once.
const BUFFER: usize = 256 * 1024;
const EVENTS: usize = 1_024;
/// Pause between two polls without events.
const POLL_SLEEP: Duration = Duration::from_micros(200);
/// Time that the server has to close connections after a DISCONNECT.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Frame that a client received.
#[derive(Debug, Clone, Copy)]
pub struct ReceivedFrame {
    /// Number of the client, in the order of [`ClientPool::connect`].
    pub client: usize,
    /// Kind of the frame.
    pub kind: ReceivedKind,
    /// Time of the frame if stamps are read, otherwise of the poll.
    pub received_at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientStage {
    /// Waits for the TCP connection.
    Connecting,
    /// The upgrade request was sent.
    Upgrading,
    /// Frames are sent and received.
    Open,
    Closed,
}

struct PooledClient {
    stream: TcpStream,
    stage: ClientStage,
    /// CONNECT packet with the token.
    auth: Vec<u8>,
    /// Bytes of an incomplete frame.
    read_buffer: Vec<u8>,
    /// Bytes that the socket has not accepted yet.
    write_buffer: Vec<u8>,
}

/// Clients over one epoll.
pub struct ClientPool {
    address: SocketAddr,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    clients: Vec<PooledClient>,
    /// The stamps of messages are read.
    pub reads_stamps: bool,
    /// Rejected clients of the last poll with the text of the server; `None` if a rejection is an error.
    pub rejections: Option<Vec<(usize, String)>>,
}

impl ClientPool {
    /// Creates a pool without clients.
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

    /// Starts to connect one more client, which reports [`ReceivedKind::Connected`].
    pub fn connect(&mut self, token: &str, device: &str) -> anyhow::Result<usize> {
        let who = self.clients.len();
        let client = self.start_connecting(who, token, device)?;
        self.clients.push(client);
        Ok(who)
    }

    /// Starts to connect a client again and drops its previous connection.
    pub fn connect_again(&mut self, who: usize, token: &str, device: &str) -> anyhow::Result<()> {
        // Without a linger time, the port is free at once.
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
            auth: client_frames::text_frame(&auth),
            read_buffer: Vec::new(),
            write_buffer: Vec::new(),
        })
    }

    /// Sends a frame; bytes that the socket does not accept are queued.
    pub fn send(&mut self, who: usize, frame: &[u8]) -> anyhow::Result<()> {
        self.clients[who].write(frame)
    }

    /// Waits for events for at most this time. Replaces the given frames with the received ones.
    pub fn poll_once(
        &mut self,
        wait: Duration,
        received: &mut Vec<ReceivedFrame>,
    ) -> anyhow::Result<()> {
        received.clear();
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
                received.push(ReceivedFrame {
                    client: who,
                    kind,
                    received_at: at,
                });
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

    /// Polls without sleeping in epoll unless stamps are read: otherwise every write of a server would also pay for
    /// waking this process, which does not happen with clients on other machines.
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

    /// Disconnects all clients.
    pub fn disconnect_all(mut self) -> anyhow::Result<()> {
        let goodbye = client_frames::disconnect_frames();
        for client in &mut self.clients {
            // The connection may be closed already.
            let _ = client.write(&goodbye);
        }
        let (deadline, mut received) = (Instant::now() + CLOSE_TIMEOUT, Vec::new());
        while self
            .clients
            .iter()
            .any(|it| it.stage != ClientStage::Closed)
            && Instant::now() < deadline
        {
            self.poll_once(Duration::from_millis(20), &mut received)?;
        }
        for client in &self.clients {
            // Without a linger time, the port is free at once: there are as many connections as ports.
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
                // The next read reports the end of the connection.
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
                    // A partly filled buffer means that there is no more input, unless the connection has ended.
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
        while let Some((head, payload, used)) = client_frames::split_first_frame(rest) {
            match client_frames::classify(head, payload, stamps) {
                ReceivedKind::Open => {
                    let auth = std::mem::take(&mut self.auth);
                    self.write(&auth)?;
                }
                ReceivedKind::Ping => self.write(&client_frames::text_frame("3"))?,
                ReceivedKind::Rejected => bail!("rejected: {}", String::from_utf8_lossy(payload)),
                // The end of the stream follows and is reported then.
                ReceivedKind::Close => {}
                kind => tell(kind),
            }
            rest = &rest[used..];
        }
        self.read_buffer = rest.to_vec();
        Ok(())
    }
}

/// Number of connections that this process may open, with a reserve for other files.
pub fn max_clients() -> anyhow::Result<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = limit.current.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(200)).context("the limit of open files is too large")
}
