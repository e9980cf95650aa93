//! Connect deadlines of sessions.

use super::clients::{PollingClient, serve_engine};
use super::recording_server::eventually;
use bytes::Bytes;
use parking_lot::Mutex;
use parlor_socketio::SocketIoOptions;
use parlor_socketio::engine_io::{EngineIoServer, EngineIoSession, SessionHandler};
use std::sync::Arc;
use std::time::Duration;

/// Records opened sessions, and sessions whose connect deadline fired.
#[derive(Default)]
struct DeadlineRecorder {
    opened: Mutex<Vec<Arc<EngineIoSession<DeadlineRecorder>>>>,
    settled: Mutex<Vec<String>>,
}

impl SessionHandler for DeadlineRecorder {
    type State = ();

    fn on_open(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        self.opened.lock().push(Arc::clone(session));
    }

    fn on_text(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: &str) -> bool {
        true
    }

    fn on_binary(self: &Arc<Self>, _: &Arc<EngineIoSession<Self>>, _: Bytes) -> bool {
        true
    }

    fn on_connect_deadline(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>) {
        self.settled.lock().push(session.sid());
    }
}

#[tokio::test]
async fn the_connect_deadline_of_a_session_fires_once() {
    let register = Arc::new(DeadlineRecorder::default());
    let options = SocketIoOptions {
        path: "/engine.io".into(),
        connect_timeout: Duration::from_millis(100),
        ping_interval: Duration::from_secs(1),
        ..SocketIoOptions::default()
    };
    let engine = EngineIoServer::new(Arc::clone(&register), options);
    let timers = tokio::spawn(Arc::clone(&engine).run_timers());
    let (address, server) = serve_engine(&engine).await;
    let _first = PollingClient::open(address, "/engine.io/").await;
    let session = Arc::clone(&register.opened.lock()[0]);
    for _ in 0..1_000 {
        engine.start_connect_deadline(&session);
    }
    let _second = PollingClient::open(address, "/engine.io/").await;
    let id = register.opened.lock()[1].sid();
    eventually("the connect deadline of the second session fires", || {
        register.settled.lock().contains(&id)
    })
    .await;
    assert!(
        register.settled.lock().len() <= 2,
        "the deadline of the first session fires at most once"
    );
    eventually("the connect deadline of the first session fires", || {
        register.settled.lock().contains(&session.sid())
    })
    .await;
    timers.abort();
    server.abort();
}
