//! Socket.IO client over WebSocket for tests, cheap enough for hundreds of clients in one process.
//!
//! Invariant: events that arrive while the client waits for an acknowledgement are queued in their order.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Client that is connected to the main namespace.
pub struct SocketIoTestClient {
    stream: BufReader<TcpStream>,
    /// Bytes of an incomplete frame. They are kept because a call may be cancelled in the middle of a frame.
    read_buffer: Vec<u8>,
    events: VecDeque<(String, Value)>,
    acks: VecDeque<(u64, Value)>,
    last_ack_id: u64,
    /// Offset of the last event that had one, for connection state recovery.
    pub offset: Option<String>,
    /// Payload of the server's CONNECT packet: `sid`, and `pid` if recovery is enabled.
    pub connect_payload: Value,
}

/// Error of a test client.
#[derive(Debug)]
pub enum SocketIoClientError {
    /// The server rejected the CONNECT with this body.
    Rejected(Value),
    /// The socket is closed, or the connection is lost.
    Closed(io::Error),
}

impl From<io::Error> for SocketIoClientError {
    fn from(error: io::Error) -> Self {
        Self::Closed(error)
    }
}

enum ClientPacket {
    Open,
    Connected(Value),
    Rejected(Value),
    Event(String, Value, Option<String>),
    Ack(u64, Value),
    Other,
}

impl SocketIoTestClient {
    /// Connects to the main namespace with this `auth`.
    ///
    /// # Errors
    /// The server rejects the CONNECT or cannot be reached.
    pub async fn connect(address: SocketAddr, auth: &Value) -> Result<Self, SocketIoClientError> {
        let mut client = Self::open_transport(address).await?;
        client.send_packet(&format!("40{auth}")).await?;
        loop {
            match client.read_packet().await? {
                ClientPacket::Connected(payload) => {
                    client.connect_payload = payload;
                    return Ok(client);
                }
                ClientPacket::Rejected(body) => return Err(SocketIoClientError::Rejected(body)),
                _ => {}
            }
        }
    }

    /// Opens a session over WebSocket without sending a CONNECT.
    ///
    /// # Errors
    /// The server rejects the WebSocket or cannot be reached.
    pub async fn open_transport(address: SocketAddr) -> Result<Self, SocketIoClientError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            stream: BufReader::with_capacity(4_096, stream),
            read_buffer: Vec::new(),
            events: VecDeque::new(),
            acks: VecDeque::new(),
            last_ack_id: 0,
            offset: None,
            connect_payload: Value::Null,
        };
        let request = format!(
            "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        client.stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.stream.read_u8().await?);
        }
        if !head.starts_with(b"HTTP/1.1 101 ") {
            let text = String::from_utf8_lossy(&head).into_owned();
            return Err(io::Error::other(text).into());
        }
        match client.read_packet().await? {
            ClientPacket::Open => Ok(client),
            _ => Err(io::Error::other("the first packet is not an open packet").into()),
        }
    }

    /// Emits an event and waits for its acknowledgement.
    ///
    /// # Errors
    /// The socket is closed before the acknowledgement arrives.
    pub async fn emit_with_ack(
        &mut self,
        event: &str,
        body: &Value,
    ) -> Result<Value, SocketIoClientError> {
        self.last_ack_id += 1;
        let id = self.last_ack_id;
        self.send_packet(&format!("42{id}[{event:?},{body}]"))
            .await?;
        loop {
            if let Some(at) = self.acks.iter().position(|ack| ack.0 == id) {
                let ack = self.acks.remove(at);
                return Ok(ack.map(|ack| ack.1).unwrap_or_default());
            }
            self.read_into_queues().await?;
        }
    }

    /// Emits an event without an acknowledgement.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn emit(&mut self, event: &str, body: &Value) -> Result<(), SocketIoClientError> {
        self.send_packet(&format!("42[{event:?},{body}]")).await
    }

    /// Waits for the next event. Cancel safe.
    ///
    /// # Errors
    /// The socket is closed before an event arrives.
    pub async fn next_event(&mut self) -> Result<(String, Value), SocketIoClientError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            self.read_into_queues().await?;
        }
    }

    /// Waits for the next event with this name; drops other events.
    ///
    /// # Errors
    /// The socket is closed before the event arrives.
    pub async fn next_event_named(&mut self, name: &str) -> Result<Value, SocketIoClientError> {
        loop {
            let (event, body) = self.next_event().await?;
            if event == name {
                return Ok(body);
            }
        }
    }

    /// Takes the events that have been read already.
    pub fn take_queued_events(&mut self) -> Vec<(String, Value)> {
        self.events.drain(..).collect()
    }

    /// Sends a DISCONNECT packet.
    ///
    /// # Errors
    /// The socket is closed already.
    pub async fn disconnect(mut self) -> Result<(), SocketIoClientError> {
        self.send_packet("41").await
    }

    /// Writes a packet as text, unchanged.
    ///
    /// # Errors
    /// The socket is closed.
    pub async fn send_packet(&mut self, text: &str) -> Result<(), SocketIoClientError> {
        self.write_frame(TEXT, text.as_bytes()).await
    }

    async fn read_into_queues(&mut self) -> Result<(), SocketIoClientError> {
        match self.read_packet().await? {
            ClientPacket::Event(name, body, offset) => {
                self.events.push_back((name, body));
                self.offset = offset.or_else(|| self.offset.take());
            }
            ClientPacket::Ack(id, body) => self.acks.push_back((id, body)),
            _ => {}
        }
        Ok(())
    }

    async fn read_packet(&mut self) -> Result<ClientPacket, SocketIoClientError> {
        loop {
            let (opcode, payload) = self.read_frame().await?;
            match opcode {
                TEXT if payload == b"2" => self.send_packet("3").await?,
                TEXT => return Ok(parse_packet(&String::from_utf8_lossy(&payload))),
                PING => self.write_frame(PONG, &payload).await?,
                CLOSE => return Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
                _ => {}
            }
        }
    }

    /// Reads one frame. Cancel safe: bytes of an incomplete frame stay in `read_buffer`.
    async fn read_frame(&mut self) -> Result<(u8, Vec<u8>), SocketIoClientError> {
        loop {
            if let Some((header, length)) = frame_lengths(&self.read_buffer)
                && self.read_buffer.len() >= header + length
            {
                let opcode = self.read_buffer[0] & 0x0f;
                let rest = self.read_buffer.split_off(header + length);
                let mut frame = std::mem::replace(&mut self.read_buffer, rest);
                return Ok((opcode, frame.split_off(header)));
            }
            if self.stream.read_buf(&mut self.read_buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    async fn write_frame(&mut self, opcode: u8, payload: &[u8]) -> Result<(), SocketIoClientError> {
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload unchanged.
        frame.extend([0; 4]);
        frame.extend(payload);
        Ok(self.stream.write_all(&frame).await?)
    }
}

/// Lengths of the header and of the payload, when they have arrived. Server frames have no mask.
fn frame_lengths(bytes: &[u8]) -> Option<(usize, usize)> {
    let length = usize::from(bytes.get(1)? & 0x7f);
    match length {
        126 => {
            let length = bytes.get(2..4)?.try_into().ok()?;
            Some((4, usize::from(u16::from_be_bytes(length))))
        }
        127 => {
            let length = bytes.get(2..10)?.try_into().ok()?;
            Some((10, u64::from_be_bytes(length) as usize))
        }
        length => Some((2, length)),
    }
}

fn parse_packet(text: &str) -> ClientPacket {
    let json = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    match text.split_at_checked(2) {
        Some(("40", body)) => ClientPacket::Connected(json(body)),
        Some(("44", body)) => ClientPacket::Rejected(json(body)),
        Some(("42", body)) => {
            let body = json(&body[digits(body)..]);
            let name = body[0].as_str().unwrap_or_default().to_owned();
            let offset = body[2].as_str().map(str::to_owned);
            ClientPacket::Event(name, body[1].clone(), offset)
        }
        Some(("43", body)) => {
            let (id, body) = body.split_at(digits(body));
            ClientPacket::Ack(id.parse().unwrap_or_default(), json(body)[0].clone())
        }
        _ if text.starts_with('0') => ClientPacket::Open,
        _ => ClientPacket::Other,
    }
}
