//! What the engine's timers do for a session.

use super::client::Polling;
use super::echo::{accept, take_back};
use super::raw::eventually;
use bytes::Bytes;
use parking_lot::Mutex;
use parlor_socketio::Options;
use parlor_socketio::engine::{Above, Engine, Session};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Writes down who came and who has settled.
#[derive(Default)]
struct Register {
    opened: Mutex<Vec<Arc<Session<Register>>>>,
    settled: Mutex<Vec<String>>,
}

impl Above for Register {
    type State = ();

    fn opened(self: &Arc<Self>, session: &Arc<Session<Self>>) {
        self.opened.lock().push(Arc::clone(session));
    }

    fn text(self: &Arc<Self>, _: &Arc<Session<Self>>, _: &str) -> bool {
        true
    }

    fn binary(self: &Arc<Self>, _: &Arc<Session<Self>>, _: Bytes) -> bool {
        true
    }

    fn settled(self: &Arc<Self>, session: &Arc<Session<Self>>) {
        self.settled.lock().push(session.id());
    }
}

#[tokio::test]
async fn a_session_is_watched_once_however_often_it_is_asked_for() {
    let register = Arc::new(Register::default());
    let options = Options {
        path: "/engine.io".into(),
        connect_timeout: Duration::from_millis(100),
        ping_interval: Duration::from_secs(1),
        ..Options::default()
    };
    let engine = Engine::new(Arc::clone(&register), options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let timers = tokio::spawn(Arc::clone(&engine).run());
    let doors = tokio::spawn({
        let engine = Arc::clone(&engine);
        accept(listener, move |request, client| {
            let engine = Arc::clone(&engine);
            async move { engine.handle(request, client, take_back).await }
        })
    });
    let _first = Polling::open(address, "/engine.io/").await;
    let session = Arc::clone(&register.opened.lock()[0]);
    for _ in 0..1_000 {
        engine.watch(&session);
    }
    let _second = Polling::open(address, "/engine.io/").await;
    let id = register.opened.lock()[1].id();
    eventually("the second has settled", || {
        register.settled.lock().contains(&id)
    })
    .await;
    assert!(register.settled.lock().len() <= 2, "the first once at most");
    eventually("so does the first", || {
        register.settled.lock().contains(&session.id())
    })
    .await;
    timers.abort();
    doors.abort();
}
