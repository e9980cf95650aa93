//! Users, devices and rooms of a benchmark, and their setup over Parlor's HTTP API before a measurement.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use jsonwebtoken::{EncodingKey, Header, encode};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

use super::servers::SECRET;

/// Concurrent requests of the setup.
const SETUP_CONNECTIONS: usize = 8;
/// Time that Parlor has to open its store and database.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Rooms of one size.
#[derive(Debug, Clone, Copy)]
pub struct RoomLayout {
    pub room_count: usize,
    pub members_per_room: usize,
    /// Messages per second at the fixed rate.
    pub messages_per_second: u32,
}

impl RoomLayout {
    /// Many small rooms; like `LARGE`, they have a thousand clients.
    pub const SMALL: Self = Self {
        room_count: 100,
        members_per_room: 10,
        messages_per_second: 200,
    };
    pub const LARGE: Self = Self {
        room_count: 10,
        members_per_room: 100,
        messages_per_second: 50,
    };

    /// Room of a client.
    pub fn room(&self, who: usize) -> String {
        format!(
            "room-{}-{}",
            self.members_per_room,
            who / self.members_per_room
        )
    }

    /// Reduces the number of rooms for fewer clients.
    pub fn limited_to(self, clients: usize) -> Self {
        Self {
            room_count: (clients / self.members_per_room).clamp(1, self.room_count),
            ..self
        }
    }

    /// Number of clients in all rooms.
    pub fn client_count(&self) -> usize {
        self.room_count * self.members_per_room
    }
}

/// Id of a user.
pub fn user(number: usize) -> String {
    format!("user-{number}")
}

/// Id of the device of a user.
pub fn device(number: usize) -> String {
    format!("device-{number}")
}

/// Creates a token that is valid for an hour.
pub fn token(user: Option<&str>, role: &str) -> anyhow::Result<String> {
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    let mut claims = json!({"name": "Bench", "role": role, "iat": now, "exp": now + 3_600});
    if let Some(user) = user {
        claims["sub"] = user.into();
    }
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    Ok(encode(&Header::default(), &claims, &key)?)
}

/// Tokens of these users.
pub fn tokens(users: Range<usize>) -> anyhow::Result<Vec<String>> {
    users.map(|it| token(Some(&user(it)), "user")).collect()
}

/// Waits until Parlor is ready: it listens before its store and database are open.
pub async fn wait_until_ready(address: SocketAddr) -> anyhow::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < READY_TIMEOUT {
        let mut stream = TcpStream::connect(address).await?;
        let request = "GET /readyz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        if answer.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("Parlor is not ready after {READY_TIMEOUT:?}")
}

/// Setup request in the name of a user.
struct SetupRequest {
    path: String,
    user: String,
    body: Value,
}

/// Creates the rooms with their members.
pub async fn make_rooms(address: SocketAddr, shape: RoomLayout) -> anyhow::Result<()> {
    let calls = (0..shape.room_count).map(|room| {
        let first = room * shape.members_per_room;
        let members: Vec<_> = (first..first + shape.members_per_room).map(user).collect();
        SetupRequest {
            path: "/v1/conversations".to_owned(),
            user: user(first),
            body: json!({"id": shape.room(first), "kind": "group", "members": members}),
        }
    });
    send_all(address, calls.collect()).await
}

/// Creates a session and an online device per user, as connected users have them.
pub async fn create_sessions(address: SocketAddr, users: usize) -> anyhow::Result<()> {
    let sessions = (0..users).map(|number| SetupRequest {
        path: "/v1/sessions".to_owned(),
        user: user(number),
        body: json!({"deviceId": device(number)}),
    });
    send_all(address, sessions.collect()).await?;
    let beats = (0..users).map(|number| SetupRequest {
        path: format!("/v1/users/{}/presence/heartbeat", user(number)),
        user: user(number),
        body: json!({"deviceId": device(number)}),
    });
    send_all(address, beats.collect()).await
}

/// Sends all requests over a few connections.
async fn send_all(address: SocketAddr, calls: Vec<SetupRequest>) -> anyhow::Result<()> {
    let share = calls.len().div_ceil(SETUP_CONNECTIONS).max(1);
    let token = &token(None, "service")?;
    let lines = calls.chunks(share).map(|calls| async move {
        let mut stream = BufStream::new(TcpStream::connect(address).await?);
        for call in calls {
            post(&mut stream, token, call).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(lines).await.map(drop)
}

async fn post(
    stream: &mut BufStream<TcpStream>,
    token: &str,
    call: &SetupRequest,
) -> anyhow::Result<()> {
    let body = call.body.to_string();
    let request = format!(
        "POST {} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\nParlor-User: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        call.path,
        call.user,
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let (mut status, mut length, mut line) = (String::new(), 0, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let text = line.trim_end();
        if text.is_empty() {
            break;
        } else if status.is_empty() {
            status = text.to_owned();
        } else if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value
                .trim()
                .parse()
                .context("Content-Length is not a number")?;
        }
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await?;
    ensure!(
        status.starts_with("HTTP/1.1 2"),
        "{} for {}: {status}: {}",
        call.path,
        call.user,
        String::from_utf8_lossy(&answer)
    );
    Ok(())
}
