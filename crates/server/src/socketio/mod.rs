//! Socket.IO gateway: connects chat clients, runs their events, delivers live events.
//!
//! Invariants:
//! 1. [`event_table`] is the only place that binds events to operations.
//! 2. The cost of a socket is bounded: events per second, joined conversations, watched users, bytes in the send queue.
//!    A client that exceeds a limit gets an error code and, if it continues, is disconnected. A slow socket does not
//!    delay other sockets.
//! 3. An event is encoded once for all sockets that receive it.
//! 4. Each socket is a presence device of its user. Pongs and heartbeats keep it alive. A clean disconnect removes it
//!    at once; after a lost connection it has the grace period.

pub mod bodies;
mod close;
mod deferred_tasks;
mod dispatch;
mod drain;
mod event_handlers;
pub mod event_table;
mod handler;
mod handshake;
mod join;
mod presence_watch;
mod rate_limit;
mod resume;
mod room_events;
mod rooms;
pub mod server_events;
mod session_end;
mod sharded_map;
mod socket_state;
mod subscription;
pub mod type_schema;
mod users;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parlor_chat::Chat;
use parlor_chat::api::caller::Caller;
use parlor_chat::clock::{Timestamp, duration_millis};
use parlor_chat::presence::HeartbeatReply;
use parlor_socketio::SocketIoOptions;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::deferred_tasks::{DeferredTask, DeferredTasks};
use self::rate_limit::{EventRateLimiter, HandshakeRateLimiter};
use self::rooms::JoinedConversations;
use self::users::ConnectedUsers;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::config;

/// Socket of this gateway.
pub type GatewaySocket = parlor_socketio::Socket<SocketIoGateway>;

/// Socket.IO server of this gateway.
pub type GatewayServer = parlor_socketio::SocketIoServer<SocketIoGateway>;

/// Handshakes in progress at a time; further ones wait for a permit. Without this limit, a burst of handshakes would
/// wait for the store for so long that the store would count as unavailable.
const MAX_CONCURRENT_HANDSHAKES: usize = 512;
/// Seconds without a session check after which a heartbeat or pong renews the session.
const SESSION_RENEW_INTERVAL_SECS: u32 = 3_600;

/// Socket.IO gateway of this node: its sockets, joined conversations and connected users.
pub struct SocketIoGateway {
    app: AppState,
    options: config::SocketIoConfig,
    server: OnceLock<Weak<GatewayServer>>,
    joined_conversations: JoinedConversations,
    connected_users: ConnectedUsers,
    deferred_tasks: DeferredTasks,
    handshake_limiter: HandshakeRateLimiter,
    handshake_permits: Semaphore,
    event_limiter: EventRateLimiter,
    started_at: Instant,
    /// Encoded acknowledgement of a heartbeat.
    heartbeat_ack: OnceLock<Box<[u8]>>,
    is_draining: AtomicBool,
    /// Runtime for tasks that are spawned on a thread of the store.
    runtime: Handle,
}

impl SocketIoGateway {
    /// Creates the gateway with its Socket.IO server. [`SocketIoGateway::run`] has to be polled for both to work.
    pub fn create_server(
        app: AppState,
        options: config::SocketIoConfig,
        node: &str,
    ) -> Arc<GatewayServer> {
        let server_options = SocketIoOptions {
            sid_prefix: sid_prefix(node),
            ..options.server.clone()
        };
        let gateway = Arc::new(Self {
            app,
            server: OnceLock::new(),
            joined_conversations: JoinedConversations::default(),
            connected_users: ConnectedUsers::default(),
            deferred_tasks: DeferredTasks::default(),
            handshake_limiter: HandshakeRateLimiter::new(options.handshake_rate),
            handshake_permits: Semaphore::new(MAX_CONCURRENT_HANDSHAKES),
            event_limiter: EventRateLimiter::new(options.event_rate),
            started_at: Instant::now(),
            heartbeat_ack: OnceLock::new(),
            is_draining: AtomicBool::new(false),
            runtime: Handle::current(),
            options,
        });
        let server = GatewayServer::new(Arc::clone(&gateway), server_options);
        let _ = gateway.server.set(Arc::downgrade(&server));
        server
    }

    /// Runs until the shutdown begins, then asks all sockets to reconnect to another node.
    pub async fn run(server: Arc<GatewayServer>) {
        let gateway = Arc::clone(server.handler());
        let work = async {
            tokio::join!(
                Arc::clone(&server).run_timers(),
                Arc::clone(&gateway).run_deferred_tasks(),
                gateway.close_removed_devices(),
                gateway.close_expired_tokens(),
            );
        };
        let end = async {
            gateway.app.wait_for_shutdown().await;
            gateway.drain(&server).await;
        };
        tokio::select! {
            () = end => {}
            () = work => {}
        }
    }

    /// The chat. It has started before the first socket is accepted.
    fn chat(&self) -> &Arc<Chat> {
        self.app
            .chat()
            .expect("sockets are accepted only after the chat has started")
    }

    /// The Socket.IO server, until it is dropped.
    fn socketio_server(&self) -> Option<Arc<GatewayServer>> {
        self.server.get().and_then(Weak::upgrade)
    }

    /// Checks the session of a socket's caller before an event runs. Optionally counts one request of the user.
    async fn recheck_caller(
        &self,
        socket: &GatewaySocket,
        is_rate_limited: bool,
    ) -> Result<Caller, ApiError> {
        let state = socket.state();
        let caller = state.caller();
        state
            .session_checked_secs
            .store(self.elapsed_secs(), Ordering::Relaxed);
        self.app.recheck_caller(&caller, is_rate_limited).await
    }

    /// Records a heartbeat of a socket's device, and renews its session if no event has checked it for long.
    fn record_heartbeat(&self, socket: &Arc<GatewaySocket>) {
        let state = socket.state();
        // The heartbeat buffer has no limit for devices with a socket.
        let _ = self.chat().presence().heartbeat(&state.device);
        let (now, checked) = (
            self.elapsed_secs(),
            state.session_checked_secs.load(Ordering::Relaxed),
        );
        if now.saturating_sub(checked) >= SESSION_RENEW_INTERVAL_SECS {
            state.session_checked_secs.store(now, Ordering::Relaxed);
            self.deferred_tasks
                .enqueue(DeferredTask::RenewSession(Arc::clone(socket)));
        }
    }

    /// Encoded acknowledgement of a heartbeat.
    fn heartbeat_ack(&self) -> &[u8] {
        self.heartbeat_ack.get_or_init(|| {
            let next_in_ms = duration_millis(self.chat().settings().heartbeat);
            dispatch::encode_ok_ack(&HeartbeatReply { next_in_ms }).into()
        })
    }

    /// Counts an event of a socket. Above the rate: milliseconds to wait.
    fn count_event(&self, socket: &GatewaySocket) -> Result<(), u64> {
        let state = socket.state();
        let used = state.event_rate_state.load(Ordering::Relaxed);
        let used = self.event_limiter.try_acquire(used, self.elapsed())?;
        // Events of one socket are handled one after the other, so this update needs no lock.
        state.event_rate_state.store(used, Ordering::Relaxed);
        state.rejected_events.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Time since the start of the gateway, for its rate limits.
    fn elapsed(&self) -> Timestamp {
        Timestamp(duration_millis(self.started_at.elapsed()))
    }

    fn elapsed_secs(&self) -> u32 {
        u32::try_from(self.started_at.elapsed().as_secs()).unwrap_or(u32::MAX)
    }
}

/// Three characters that identify the node in every `sid`.
fn sid_prefix(node: &str) -> [u8; 3] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // FNV-1a: each node computes the same value. It need not be cryptographic.
    let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    [48, 54, 58].map(|shift| ALPHABET[(hash >> shift) as usize % ALPHABET.len()])
}

fn encode_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("bodies contain only types that JSON supports")
}

impl std::fmt::Debug for SocketIoGateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SocketIoGateway")
    }
}
