//! Server whose handler records its calls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use parlor_socketio::{
    ConnectError, ConnectRequest, DisconnectReason, EncodedEvent, HandlerFuture, IncomingEvent,
    RecoveryOptions, Socket, SocketHandler, SocketIoOptions, SocketIoServer,
};
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::clients::{RawConnection, sid_of};
use super::echo::{accept, downcast_upgraded};

/// Longer than any step takes; only a failing test waits for it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Handler that records its calls and can be blocked.
pub struct RecordingHandler {
    pub calls: Mutex<Vec<String>>,
    pub slow_event_permits: Semaphore,
    pub refuse_connects: AtomicBool,
    pub hold_connects: AtomicBool,
    /// Blocks a thread in `on_connected`.
    pub block_on_connected: AtomicBool,
}

impl RecordingHandler {
    fn record(&self, call: impl Into<String>) {
        self.calls.lock().push(call.into());
    }

    fn block_while_set(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.block_on_connected.load(Ordering::SeqCst) && Instant::now() < deadline {
            std::thread::yield_now();
        }
    }

    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }
}

fn rejection() -> ConnectError {
    let payload = RawValue::from_string(r#"{"message":"no"}"#.into());
    ConnectError {
        payload: payload.unwrap(),
    }
}

impl SocketHandler for RecordingHandler {
    type State = ();

    async fn on_connect(self: &Arc<Self>, request: ConnectRequest) -> Result<(), ConnectError> {
        self.record("connect");
        if self.hold_connects.load(Ordering::SeqCst) {
            self.slow_event_permits.acquire().await.unwrap().forget();
        }
        assert_eq!(request.id.len(), 20);
        match self.refuse_connects.load(Ordering::SeqCst) {
            true => Err(rejection()),
            false => Ok(()),
        }
    }

    fn on_connected(self: &Arc<Self>, _: &Arc<Socket<Self>>) -> Option<HandlerFuture> {
        if self.block_on_connected.load(Ordering::SeqCst) {
            tokio::task::block_in_place(|| self.block_while_set());
        }
        self.record("connected");
        None
    }

    fn on_event(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self>>,
        event: &IncomingEvent<'_>,
    ) -> Option<HandlerFuture> {
        self.record(event.name);
        match event.name {
            "echo" => {
                if let Some(id) = event.ack_id {
                    socket.ack(id, event.args.as_bytes());
                }
                None
            }
            "slow" => {
                let (handler, socket, ack_id) =
                    (Arc::clone(self), Arc::clone(socket), event.ack_id);
                Some(Box::pin(async move {
                    handler.slow_event_permits.acquire().await.unwrap().forget();
                    if let Some(ack_id) = ack_id {
                        socket.ack(ack_id, b"\"slow\"");
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

    fn on_detached(self: &Arc<Self>, _: &Arc<Socket<Self>>, reason: DisconnectReason) {
        self.record(format!("detached {reason:?}"));
    }

    async fn on_recover(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self>>,
        request: ConnectRequest,
    ) -> Result<bool, ConnectError> {
        assert_eq!(request.id, socket.id());
        self.record("recover");
        match self.refuse_connects.load(Ordering::SeqCst) {
            true => Err(rejection()),
            false => Ok(true),
        }
    }

    fn on_disconnected(self: &Arc<Self>, _: &Arc<Socket<Self>>, reason: DisconnectReason) {
        self.record(format!("disconnected {reason:?}"));
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

pub const RECOVERY: RecoveryOptions = RecoveryOptions {
    window: Duration::from_secs(60),
    max_frames: 5,
    max_bytes: 10_000,
    max_total_bytes: usize::MAX,
};

pub fn recovery_enabled() -> SocketIoOptions {
    with_recovery(RECOVERY)
}

pub fn with_recovery(recovery: RecoveryOptions) -> SocketIoOptions {
    SocketIoOptions {
        recovery: Some(recovery),
        ..SocketIoOptions::default()
    }
}

pub async fn start_test_server(options: SocketIoOptions) -> TestServer {
    let handler = Arc::new(RecordingHandler {
        calls: Mutex::default(),
        slow_event_permits: Semaphore::new(0),
        refuse_connects: AtomicBool::new(false),
        hold_connects: AtomicBool::new(false),
        block_on_connected: AtomicBool::new(false),
    });
    let server = SocketIoServer::new(handler, options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let timers = tokio::spawn(Arc::clone(&server).run_timers());
    let accept_server = Arc::clone(&server);
    let accept_task = tokio::spawn(async move {
        let accepted = accept(listener, move |request, client| {
            let server = Arc::clone(&accept_server);
            async move {
                server
                    .handle_request(request, client, downcast_upgraded)
                    .await
            }
        });
        accepted.await.unwrap();
    });
    TestServer {
        address,
        server,
        tasks: vec![timers, accept_task],
    }
}

impl TestServer {
    pub fn handler(&self) -> &Arc<RecordingHandler> {
        self.server.handler()
    }

    /// Sends a recoverable event to all sockets.
    pub fn broadcast(&self, name: &str) {
        let frame = self.server.encode_recoverable_event(name, b"1");
        self.server.for_each_socket(|socket| socket.send(&frame));
    }

    /// Waits until the handler has recorded this call.
    pub async fn wait_for_call(&self, call: &str) {
        eventually(call, || self.handler().calls().iter().any(|it| it == call)).await;
    }
}

/// Waits until the condition holds.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    parlor_testkit::eventually(what, async || holds()).await;
}

/// Sends a polling request on its own connection. Returns status and body.
pub async fn request(address: SocketAddr, method: &str, query: &str, body: &str) -> (u16, String) {
    let target = format!("/socket.io/?EIO=4&transport=polling{query}");
    let mut connection = RawConnection::open(address).await;
    let response = connection.request(method, &target, body.as_bytes()).await;
    (response.status, response.body)
}

/// Opens a polling session. Returns its query.
pub async fn open_polling_session(address: SocketAddr) -> String {
    let (status, body) = request(address, "GET", "", "").await;
    assert_eq!(status, 200, "{body}");
    format!("&sid={}", sid_of(&body))
}
