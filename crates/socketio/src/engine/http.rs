//! Requests: who asks for what, and may they.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::answer::{self, Refusal};
use super::out::Transport;
use super::session::Session;
use super::{Above, Engine, polling, upgrade};
use crate::{Client, TakeBack};

/// What a query says; what else is in it is for caches and proxies.
#[derive(Debug, Default)]
struct Query {
    version: Option<String>,
    transport: Option<String>,
    sid: Option<String>,
    /// `EIO` comes before `transport`.
    is_version_first: bool,
}

impl Query {
    fn of(query: &str) -> Self {
        let mut found = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            if key == "EIO" {
                found.is_version_first = found.transport.is_none();
            }
            let place = match &*key {
                "EIO" => &mut found.version,
                "transport" => &mut found.transport,
                "sid" => &mut found.sid,
                _ => continue,
            };
            place.get_or_insert_with(|| value.into_owned());
        }
        found
    }
}

impl<U: Above> Engine<U> {
    /// Answers a request. Dropped while it waits, the session that it polls for ends, as the client is gone.
    pub async fn handle(
        self: &Arc<Self>,
        request: Request<Incoming>,
        client: Client,
        take_back: TakeBack,
    ) -> Response<Full<Bytes>> {
        self.answer(request, client, take_back)
            .await
            .unwrap_or_else(Refusal::answer)
    }

    async fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        mut client: Client,
        take_back: TakeBack,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let query = Query::of(request.uri().query().unwrap_or_default());
        client.keeps_offset = is_javascript(&query, client.user_agent.as_deref());
        let transport = match query.transport.as_deref() {
            Some("polling") => Transport::Polling,
            Some("websocket") => Transport::WebSocket,
            _ => return Err(Refusal::UnknownTransport),
        };
        let session = match &query.sid {
            Some(sid) => Some(self.named(sid)?),
            None => None,
        };
        match (transport, session) {
            (Transport::Polling, Some(session)) => match *request.method() {
                // Boxed: a WebSocket, which waits for nothing here, has no room for them.
                Method::GET => Box::pin(polling::fetch(&session)).await,
                Method::POST => Box::pin(polling::take(&session, request)).await,
                _ => Err(Refusal::BadMethod),
            },
            (Transport::Polling, None) => {
                handshake(request.method(), &query)?;
                let session = self.open(client, Transport::Polling)?;
                let greeting = self.greeting(&session, r#""websocket""#);
                Ok(answer::text(greeting.into()))
            }
            (Transport::WebSocket, Some(session)) => {
                upgrade::of_polling(request, &session, take_back)
            }
            (Transport::WebSocket, None) => {
                handshake(request.method(), &query)?;
                upgrade::check(&request)?;
                let session = self.open(client, Transport::WebSocket)?;
                upgrade::from_the_start(request, &session, take_back)
            }
        }
    }

    fn named(&self, sid: &str) -> Result<Arc<Session<U>>, Refusal> {
        let own = self.options().node.as_slice();
        let Some((node, rest)) = sid.split_at_checked(own.len()) else {
            return Err(Refusal::UnknownSession);
        };
        let Some((place, secret)) = Session::<U>::named(rest) else {
            return Err(Refusal::UnknownSession);
        };
        if node.as_bytes() != own {
            return Err(Refusal::ForeignSession);
        }
        self.table
            .get(place)
            .filter(|session| session.is_named(&secret))
            .ok_or(Refusal::UnknownSession)
    }
}

/// How clients in JavaScript call themselves, in browsers and elsewhere.
const JAVASCRIPT: [&str; 4] = ["Mozilla/", "node", "Bun/", "Deno/"];

/// Whether the stock client asks. Where it says nothing of itself, as over a WebSocket of Node, it is known by the order of what
/// it asks for.
fn is_javascript(query: &Query, agent: Option<&str>) -> bool {
    match agent {
        Some(agent) => JAVASCRIPT.iter().any(|name| agent.starts_with(name)),
        None => query.is_version_first,
    }
}

fn handshake(method: &Method, query: &Query) -> Result<(), Refusal> {
    if *method != Method::GET {
        return Err(Refusal::BadMethod);
    }
    match query.version.as_deref() {
        Some("4") => Ok(()),
        _ => Err(Refusal::BadVersion),
    }
}
