//! What the public suites expect of a server: Engine.IO that sends each message back, and Socket.IO with two namespaces.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parlor_socketio::engine::{Above, Engine, Session};
use parlor_socketio::{
    App, Client, Connect, Event, Frame, Options, Reason, Refused, Server, Socket, Taken, Work,
};
use serde_json::value::RawValue;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// What the suites are told of a server, and what it keeps to.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    pub max_payload: usize,
    pub connect_timeout: Duration,
    /// Between the connect and `auth`. A suite that listens for one message at a time loses the second of two that arrive in
    /// one piece, as these would.
    pub apart: Duration,
}

impl Settings {
    fn options(self, path: &str) -> Options {
        let defaults = Options::default();
        Options {
            path: path.into(),
            ping_interval: self.ping_interval,
            ping_timeout: self.ping_timeout,
            max_payload: self.max_payload,
            connect_timeout: self.connect_timeout,
            // A client that sends much moves slowly.
            upgrade_timeout: defaults.upgrade_timeout.max(self.connect_timeout),
            // What is read in one go is sent back in one go.
            buffer: 4 * self.max_payload.max(1 << 20),
            ..defaults
        }
    }
}

/// Both servers behind one port.
pub struct Echo {
    engine: Arc<Engine<Messages>>,
    socket: Arc<Server<Events>>,
}

impl Echo {
    pub fn new(settings: Settings) -> Arc<Self> {
        let events = Events {
            apart: settings.apart,
        };
        Arc::new(Self {
            engine: Engine::new(Arc::new(Messages), settings.options("/engine.io")),
            socket: Server::new(Arc::new(events), settings.options("/socket.io")),
        })
    }

    /// Answers connections until there is nothing to accept any more.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        tokio::spawn(Arc::clone(&self.engine).run());
        tokio::spawn(Arc::clone(&self.socket).run());
        accept(listener, move |request, client| {
            let echo = Arc::clone(&self);
            async move { echo.answer(request, client).await }
        })
        .await
    }

    async fn answer(&self, request: Request<Incoming>, client: Client) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if self.engine.takes(path) {
            self.engine.handle(request, client, take_back).await
        } else if self.socket.takes(path) {
            self.socket.handle(request, client, take_back).await
        } else {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

/// HTTP for as long as there are connections to accept.
pub async fn accept<F>(
    listener: TcpListener,
    answer: impl Fn(Request<Incoming>, Client) -> F + Clone + Send + 'static,
) -> io::Result<()>
where
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    loop {
        let (stream, address) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let client = Client {
                    address: Some(address.ip()),
                    ..Client::default()
                };
                let answered = answer(request, client);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
        });
    }
}

/// The TCP stream out of what hyper upgraded.
pub fn take_back(upgraded: Upgraded) -> Result<Taken, Upgraded> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>()?;
    Ok(Taken {
        stream: parts.io.into_inner(),
        ahead: parts.read_buf,
        owed: Bytes::new(),
    })
}

/// Engine.IO: each message comes back.
#[derive(Debug)]
struct Messages;

impl Above for Messages {
    type State = ();

    fn text(self: &Arc<Self>, session: &Arc<Session<Self>>, text: &str) -> bool {
        session.send_text(text);
        true
    }

    fn binary(self: &Arc<Self>, session: &Arc<Session<Self>>, bytes: Bytes) -> bool {
        session.send_binary(&bytes);
        true
    }
}

/// Socket.IO: `auth` on connect, then `message` and `message-with-ack`.
#[derive(Debug)]
struct Events {
    apart: Duration,
}

impl App for Events {
    /// What the client gave when it connected.
    type State = Box<str>;

    async fn connect(self: &Arc<Self>, asking: Connect) -> Result<Self::State, Refused> {
        if !matches!(&*asking.namespace, "/" | "/custom") {
            let payload = RawValue::from_string(r#"{"message":"Invalid namespace"}"#.into());
            return Err(Refused {
                payload: payload.expect("the text is JSON"),
            });
        }
        Ok(asking.auth.as_deref().map_or("{}", RawValue::get).into())
    }

    fn connected(self: &Arc<Self>, socket: &Arc<Socket<Self::State>>) -> Option<Work> {
        let (socket, apart) = (Arc::clone(socket), self.apart);
        Some(Box::pin(async move {
            tokio::time::sleep(apart).await;
            socket.send(&Frame::event("auth", socket.state().as_bytes()));
        }))
    }

    fn event(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self::State>>,
        event: &Event<'_>,
    ) -> Option<Work> {
        let (args, attachments) = (event.args().as_bytes(), event.attachments());
        match (event.name(), event.ack()) {
            ("message", _) => socket.send(&Frame::binary("message-back", args, attachments)),
            ("message-with-ack", Some(id)) => socket.ack_binary(id, args, attachments),
            _ => {}
        }
        None
    }

    fn disconnected(self: &Arc<Self>, _: &Arc<Socket<Self::State>>, _: Reason) {}
}
