//! Polling: a GET waits for packets, a POST brings packets.
//!
//! Invariant: at most one GET and one POST of a session are in progress; a second one closes the session.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use tokio::time::timeout;

use super::SessionHandler;
use super::answer::{self, RequestError};
use super::out::{TransportKind, TransportState};
use super::session::EngineIoSession;
use crate::packet::engine::decode_polling_body;
use crate::{DisconnectReason, packet};

/// Handles a GET: waits for packets and returns them.
pub(super) async fn handle_poll<U: SessionHandler>(
    session: &Arc<EngineIoSession<U>>,
) -> Result<Response<Full<Bytes>>, RequestError> {
    let mut turn = PollingRequestGuard::acquire(session, |out| &mut out.poll_in_progress)?;
    let body = poll_fn(|cx| session.poll_polling_body(cx)).await;
    turn.is_completed = true;
    Ok(answer::packets_response(body.into()))
}

/// Handles a POST: passes its packets to the session.
pub(super) async fn handle_post<U: SessionHandler>(
    session: &Arc<EngineIoSession<U>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, RequestError> {
    let mut turn = PollingRequestGuard::acquire(session, |out| &mut out.post_in_progress)?;
    let taken = read_post_body(session, request).await;
    turn.is_completed = true;
    match taken {
        Ok(()) => Ok(answer::packets_response(Bytes::from_static(b"ok"))),
        Err(reason) => {
            session.close(reason);
            Err(match reason {
                DisconnectReason::PayloadTooLarge => RequestError::TooLarge,
                _ => RequestError::BadRequest,
            })
        }
    }
}

async fn read_post_body<U: SessionHandler>(
    session: &Arc<EngineIoSession<U>>,
    request: Request<Incoming>,
) -> Result<(), DisconnectReason> {
    let options = session.engine().options();
    if request.body().size_hint().lower() > options.max_payload as u64 {
        return Err(DisconnectReason::PayloadTooLarge);
    }
    let body = Limited::new(request.into_body(), options.max_payload);
    // A body may take as long as a client may be silent.
    let body = timeout(options.ping_interval + options.ping_timeout, body.collect())
        .await
        .map_err(|_| DisconnectReason::TransportClosed)?
        .map_err(
            |error| match error.is::<http_body_util::LengthLimitError>() {
                true => DisconnectReason::PayloadTooLarge,
                false => DisconnectReason::TransportClosed,
            },
        )?
        .to_bytes();
    handle_packets(session, &body)
        .await
        .map_err(|_| DisconnectReason::ProtocolError)
}

async fn handle_packets<U: SessionHandler>(
    session: &Arc<EngineIoSession<U>>,
    body: &[u8],
) -> Result<(), packet::engine::EngineIoPacketError> {
    for packet in decode_polling_body(body)? {
        let more = session.handle_packet(packet?);
        if !session.is_open() {
            break;
        }
        if !more {
            poll_fn(|cx| session.engine().handler().poll_inbox_ready(session, cx)).await;
        }
    }
    Ok(())
}

/// Guard of a GET or POST in progress. If it is dropped before the request is completed, the client has disconnected.
struct PollingRequestGuard<'a, U: SessionHandler> {
    session: &'a Arc<EngineIoSession<U>>,
    flag: fn(&mut TransportState) -> &mut bool,
    is_completed: bool,
}

impl<'a, U: SessionHandler> PollingRequestGuard<'a, U> {
    fn acquire(
        session: &'a Arc<EngineIoSession<U>>,
        flag: fn(&mut TransportState) -> &mut bool,
    ) -> Result<Self, RequestError> {
        let mut out = session.transport_state().lock();
        if out.active != TransportKind::Polling {
            return Err(RequestError::BadRequest);
        }
        if !out.accepts_polls() {
            return Err(RequestError::UnknownSession);
        }
        if std::mem::replace(flag(&mut out), true) {
            drop(out);
            session.close(DisconnectReason::ProtocolError);
            return Err(RequestError::BadRequest);
        }
        Ok(Self {
            session,
            flag,
            is_completed: false,
        })
    }
}

impl<U: SessionHandler> Drop for PollingRequestGuard<'_, U> {
    fn drop(&mut self) {
        let mut out = self.session.transport_state().lock();
        *(self.flag)(&mut out) = false;
        let is_its = out.active == TransportKind::Polling;
        drop(out);
        if is_its && !self.is_completed {
            self.session.close(DisconnectReason::TransportClosed);
        }
    }
}
