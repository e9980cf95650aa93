//! Socket.IO client over WebSocket for tests, cheap enough for hundreds of clients in one process.
//!
//! Invariant: events that arrive while the client waits for an acknowledgement are queued in their order.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::{HttpConnection, decode_server_frame, encode_client_frame};

/// First bytes of unfragmented frames.
const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;

/// Client that is connected to the main namespace. A method returns an error if the socket is closed before it is done.
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
    pub async fn open_transport(address: SocketAddr) -> Result<Self, SocketIoClientError> {
        let mut http = HttpConnection::open(address).await?;
        let headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let target = "/socket.io/?EIO=4&transport=websocket";
        let response = http.request("GET", target, &headers, b"").await?;
        if response.status != 101 {
            return Err(io::Error::other(format!("{response:?}")).into());
        }
        let mut client = Self {
            stream: http.stream,
            read_buffer: Vec::new(),
            events: VecDeque::new(),
            acks: VecDeque::new(),
            last_ack_id: 0,
            offset: None,
            connect_payload: Value::Null,
        };
        match client.read_packet().await? {
            ClientPacket::Open => Ok(client),
            _ => Err(io::Error::other("the first packet is not an open packet").into()),
        }
    }

    /// Emits an event and waits for its acknowledgement.
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
    pub async fn emit(&mut self, event: &str, body: &Value) -> Result<(), SocketIoClientError> {
        self.send_packet(&format!("42[{event:?},{body}]")).await
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next_event(&mut self) -> Result<(String, Value), SocketIoClientError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            self.read_into_queues().await?;
        }
    }

    /// Waits for the next event with this name; drops other events.
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
    pub async fn disconnect(mut self) -> Result<(), SocketIoClientError> {
        self.send_packet("41").await
    }

    /// Writes a packet as text, unchanged.
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
            let (first, payload) = self.read_frame().await?;
            match first {
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
            if let Some((first, payload, length)) = decode_server_frame(&self.read_buffer) {
                let payload = payload.to_vec();
                self.read_buffer.drain(..length);
                return Ok((first, payload));
            }
            if self.stream.read_buf(&mut self.read_buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    async fn write_frame(&mut self, first: u8, payload: &[u8]) -> Result<(), SocketIoClientError> {
        let frame = encode_client_frame(first, payload);
        Ok(self.stream.write_all(&frame).await?)
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
