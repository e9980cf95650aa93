//! The Socket.IO side: what clients of a chat are connected by.
//!
//! Always true:
//! 1. Which event leads to which operation stands in [`table`], and nowhere else.
//! 2. A socket costs a bounded amount: its events per second, what it may join and watch, what waits for it. Who exceeds is
//!    told a code, then cut. A slow socket delays no other.
//! 3. A frame is encoded once for all sockets that get it.
//! 4. A socket is a device of its user: alive while its client answers pings or beats, gone with a goodbye, lost without.

mod app;
mod arrivals;
mod call;
mod closing;
pub mod described;
mod door;
mod drain;
mod errands;
mod events;
mod joining;
mod news;
mod people;
mod rate;
pub mod reference;
mod rooms;
mod session;
mod shards;
mod state;
pub mod table;
mod watching;
pub mod words;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parlor_chat::access::Caller;
use parlor_chat::chat::Chat;
use parlor_chat::context::millis;
use parlor_chat::ids::ConversationId;
use parlor_chat::presence::NextHeartbeat;
use parlor_socketio::{Frame, Options, Recovery};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use self::arrivals::Arrivals;
use self::errands::{Errand, Errands};
use self::people::People;
use self::rate::Pace;
use self::rooms::Rooms;
use self::state::State;
use self::words::Conversation;
use crate::app::App;
use crate::config;
use crate::wire::Refusal;

/// A socket of this gateway.
pub type Socket = parlor_socketio::Socket<State>;

/// The Socket.IO server of this gateway.
pub type Server = parlor_socketio::Server<Gateway>;

/// Handshakes that are under way at a time; others wait. A crowd that comes at once would otherwise have all of them wait for
/// the store so long that it is taken to be away.
const MOST_AT_THE_DOOR: usize = 512;
/// Seconds after which the session of somebody who asks for nothing is renewed.
const RENEW: u32 = 3_600;

/// The sockets of this node, and where they belong.
pub struct Gateway {
    app: App,
    options: config::Gateway,
    chat: OnceLock<Arc<Chat>>,
    server: OnceLock<Weak<Server>>,
    rooms: Rooms,
    people: People,
    errands: Errands,
    arrivals: Arrivals,
    door: Semaphore,
    pace: Pace,
    began: Instant,
    /// The acknowledgement of a heartbeat.
    next_beat: OnceLock<Box<[u8]>>,
    draining: AtomicBool,
    /// Where work goes on that begins on a thread of the store.
    runtime: Handle,
}

impl Gateway {
    /// A gateway without sockets, and the server that feeds it. It needs [`Gateway::serve`] to run.
    pub fn server(app: App, options: config::Gateway, node: &str) -> Arc<Server> {
        let gateway = Arc::new(Self {
            app,
            options,
            chat: OnceLock::new(),
            server: OnceLock::new(),
            rooms: Rooms::default(),
            people: People::default(),
            errands: Errands::default(),
            arrivals: Arrivals::new(options.handshakes),
            door: Semaphore::new(MOST_AT_THE_DOOR),
            pace: Pace::new(options.events),
            began: Instant::now(),
            next_beat: OnceLock::new(),
            draining: AtomicBool::new(false),
            runtime: Handle::current(),
        });
        let server = Server::new(Arc::clone(&gateway), wire_options(&options, node));
        let _ = gateway.server.set(Arc::downgrade(&server));
        server
    }

    /// Runs until the node is about to end, then says goodbye to everybody.
    pub async fn serve(server: Arc<Server>) {
        let gateway = Arc::clone(server.app());
        let work = async {
            tokio::join!(
                Arc::clone(&server).run(),
                Arc::clone(&gateway).run_errands(),
                gateway.close_removed(),
                gateway.close_expired(),
            );
        };
        let end = async {
            gateway.app.stopping().await;
            gateway.drain(&server).await;
        };
        tokio::select! {
            () = end => {}
            () = work => {}
        }
    }

    /// The chat, which is there before the first socket.
    fn chat(&self) -> &Arc<Chat> {
        self.chat
            .get()
            .expect("nobody is let in before the chat is there")
    }

    /// The chat, if it is there.
    fn open(&self) -> Result<Arc<Chat>, Refusal> {
        if let Some(chat) = self.chat.get() {
            return Ok(Arc::clone(chat));
        }
        let chat = self.app.chat()?;
        Ok(Arc::clone(self.chat.get_or_init(|| chat)))
    }

    /// An event for any number of sockets, kept for those who lose their connection.
    fn frame(&self, name: &str, json: &[u8]) -> Frame {
        match self.server.get().and_then(Weak::upgrade) {
            Some(server) => server.frame(name, json),
            None => Frame::event(name, json),
        }
    }

    /// The event that tells a user's socket that a conversation is not theirs.
    fn removed(&self, conversation: &ConversationId) -> Frame {
        self.removed_text(conversation.as_str())
    }

    fn removed_text(&self, conversation: &str) -> Frame {
        let removed = Conversation {
            conversation_id: conversation.to_owned(),
        };
        self.frame("conversation:removed", &encode(&removed))
    }

    /// The caller of a socket's event, if they are still let in. `counted` takes one place of the user's budget.
    async fn admit(&self, socket: &Socket, counted: bool) -> Result<Caller, Refusal> {
        let state = socket.state();
        let caller = state.caller();
        state.checked.store(self.seconds(), Ordering::Relaxed);
        self.app.readmit(&caller, counted).await
    }

    /// A socket is still there.
    fn beat(&self, socket: &Arc<Socket>) {
        let state = socket.state();
        // Of a socket there is always room for a beat.
        let _ = self.chat().presence().beat(&state.device);
        let (now, checked) = (self.seconds(), state.checked.load(Ordering::Relaxed));
        if now.saturating_sub(checked) >= RENEW {
            state.checked.store(now, Ordering::Relaxed);
            self.errands.add(Errand::Renew(Arc::clone(socket)));
        }
    }

    /// The acknowledgement of a heartbeat.
    fn next_beat(&self) -> &[u8] {
        self.next_beat.get_or_init(|| {
            let next_in_ms = millis(self.chat().settings().heartbeat);
            call::done(&NextHeartbeat { next_in_ms }).into()
        })
    }

    /// Counts an event of a socket. If it is one too many: how long to wait, in milliseconds.
    fn may_say(&self, socket: &Socket) -> Result<(), u64> {
        let state = socket.state();
        let used = state.used.load(Ordering::Relaxed);
        let used = self.pace.one(used, self.micros())?;
        // Events of one socket come one after the other.
        state.used.store(used, Ordering::Relaxed);
        state.refused.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn seconds(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_secs()).unwrap_or(u32::MAX)
    }
}

fn wire_options(options: &config::Gateway, node: &str) -> Options {
    let recovery = (!options.recovery.is_zero()).then_some(Recovery {
        window: options.recovery,
        frames: options.recovery_frames,
        bytes: options.buffer,
    });
    Options {
        ping_interval: options.ping_interval,
        ping_timeout: options.ping_timeout,
        connect_timeout: options.handshake_timeout,
        upgrade_timeout: options.handshake_timeout,
        max_payload: options.max_frame,
        buffer: options.buffer,
        recovery,
        most: options.connections,
        most_per_address: options.connections_per_address,
        node: mark(node),
        ..Options::default()
    }
}

/// Three characters that tell the nodes apart.
fn mark(node: &str) -> [u8; 3] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // FNV-1a: the same on every node, and of no use to anybody else.
    let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    [48, 54, 58].map(|shift| ALPHABET[(hash >> shift) as usize % ALPHABET.len()])
}

fn encode(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts, numbers and lists are JSON")
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gateway")
    }
}
