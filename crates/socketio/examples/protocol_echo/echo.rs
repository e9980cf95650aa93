//! Servers that the public protocol suites expect: Engine.IO that echoes each message, and Socket.IO with two
//! namespaces.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parlor_socketio::engine_io::{EngineIoServer, EngineIoSession, SessionHandler};
use parlor_socketio::{
    ClientInfo, ConnectError, ConnectRequest, DisconnectReason, EncodedEvent, HandlerFuture,
    IncomingEvent, Socket, SocketHandler, SocketIoOptions, SocketIoServer, UpgradedTcpStream,
};
use serde_json::value::RawValue;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Settings of both servers, as the suites expect them.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub ping_interval: Duration,
    pub ping_timeout: Duration,
    pub max_payload: usize,
    pub connect_timeout: Duration,
    /// Delay between CONNECT and the `auth` event. A suite that waits for one message at a time loses the second of two
    /// messages that arrive together.
    pub auth_delay: Duration,
}

impl Settings {
    fn options(self, path: &str) -> SocketIoOptions {
        let defaults = SocketIoOptions::default();
        SocketIoOptions {
            path: path.into(),
            ping_interval: self.ping_interval,
            ping_timeout: self.ping_timeout,
            max_payload: self.max_payload,
            connect_timeout: self.connect_timeout,
            // A client that sends much needs long for the upgrade.
            upgrade_timeout: defaults.upgrade_timeout.max(self.connect_timeout),
            // Everything that is read at once is echoed at once, so the send queue must hold it.
            max_send_queue_bytes: 4 * self.max_payload.max(1 << 20),
            ..defaults
        }
    }
}

/// Both servers on one port.
pub struct EchoServers {
    engine: Arc<EngineIoServer<EngineIoEcho>>,
    socket: Arc<SocketIoServer<SocketIoEcho>>,
}

impl EchoServers {
    pub fn new(settings: Settings) -> Arc<Self> {
        let handler = SocketIoEcho {
            auth_delay: settings.auth_delay,
        };
        Arc::new(Self {
            engine: EngineIoServer::new(Arc::new(EngineIoEcho), settings.options("/engine.io")),
            socket: SocketIoServer::new(Arc::new(handler), settings.options("/socket.io")),
        })
    }

    /// Serves connections until the listener fails.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        tokio::spawn(Arc::clone(&self.engine).run_timers());
        tokio::spawn(Arc::clone(&self.socket).run_timers());
        accept(listener, move |request, client| {
            let echo = Arc::clone(&self);
            async move { echo.respond(request, client).await }
        })
        .await
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        client: ClientInfo,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if self.engine.matches_path(path) {
            self.engine
                .handle_request(request, client, downcast_upgraded)
                .await
        } else if self.socket.matches_path(path) {
            self.socket
                .handle_request(request, client, downcast_upgraded)
                .await
        } else {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

/// Accepts connections and serves HTTP on them, until the listener fails.
pub async fn accept<F>(
    listener: TcpListener,
    respond: impl Fn(Request<Incoming>, ClientInfo) -> F + Clone + Send + 'static,
) -> io::Result<()>
where
    F: Future<Output = Response<Full<Bytes>>> + Send,
{
    loop {
        let (stream, address) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let respond = respond.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let client = ClientInfo {
                    address: Some(address.ip()),
                    ..ClientInfo::default()
                };
                let response = respond(request, client);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
        });
    }
}

/// Gets the TCP stream out of a connection that hyper has upgraded.
pub fn downcast_upgraded(upgraded: Upgraded) -> Result<UpgradedTcpStream, Upgraded> {
    let parts = upgraded.downcast::<TokioIo<TcpStream>>()?;
    Ok(UpgradedTcpStream {
        stream: parts.io.into_inner(),
        read_buf: parts.read_buf,
        unsent_response: Bytes::new(),
    })
}

/// Engine.IO handler that echoes each message.
#[derive(Debug)]
struct EngineIoEcho;

impl SessionHandler for EngineIoEcho {
    type State = ();

    fn on_text(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, text: &str) -> bool {
        session.send_text(text);
        true
    }

    fn on_binary(self: &Arc<Self>, session: &Arc<EngineIoSession<Self>>, bytes: Bytes) -> bool {
        session.send_binary(&bytes);
        true
    }
}

/// Socket.IO handler: sends `auth` after a CONNECT, answers `message` and `message-with-ack`.
#[derive(Debug)]
struct SocketIoEcho {
    auth_delay: Duration,
}

impl SocketHandler for SocketIoEcho {
    /// `auth` of the client.
    type State = Box<str>;

    async fn on_connect(
        self: &Arc<Self>,
        request: ConnectRequest,
    ) -> Result<Self::State, ConnectError> {
        if !matches!(&*request.namespace, "/" | "/custom") {
            let payload = RawValue::from_string(r#"{"message":"Invalid namespace"}"#.into());
            return Err(ConnectError {
                payload: payload.expect("the text is JSON"),
            });
        }
        Ok(request.auth.as_deref().map_or("{}", RawValue::get).into())
    }

    fn on_connected(self: &Arc<Self>, socket: &Arc<Socket<Self>>) -> Option<HandlerFuture> {
        let (socket, auth_delay) = (Arc::clone(socket), self.auth_delay);
        Some(Box::pin(async move {
            tokio::time::sleep(auth_delay).await;
            socket.send(&EncodedEvent::new("auth", socket.state().as_bytes()));
        }))
    }

    fn on_event(
        self: &Arc<Self>,
        socket: &Arc<Socket<Self>>,
        event: &IncomingEvent<'_>,
    ) -> Option<HandlerFuture> {
        let (args, attachments) = (event.args.as_bytes(), event.attachments);
        match (event.name, event.ack_id) {
            ("message", _) => socket.send(&EncodedEvent::with_attachments(
                "message-back",
                args,
                attachments,
            )),
            ("message-with-ack", Some(id)) => socket.ack_with_attachments(id, args, attachments),
            _ => {}
        }
        None
    }

    fn on_disconnected(self: &Arc<Self>, _: &Arc<Socket<Self>>, _: DisconnectReason) {}
}
