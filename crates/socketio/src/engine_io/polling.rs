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
use super::responses::{self, RequestError};
use super::session::EngineIoSession;
use super::transport_state::{TransportKind, TransportState};
use crate::DisconnectReason;
use crate::packet::engine_io::{EngineIoPacketError, decode_polling_body};

/// Handles a GET: waits for packets and returns them.
pub(super) async fn handle_poll<H: SessionHandler>(
    session: &Arc<EngineIoSession<H>>,
) -> Result<Response<Full<Bytes>>, RequestError> {
    let mut guard =
        PollingRequestGuard::acquire(session, |transport| &mut transport.poll_in_progress)?;
    let body = poll_fn(|cx| session.poll_polling_body(cx)).await;
    guard.is_completed = true;
    Ok(responses::packets_response(body.into()))
}

/// Handles a POST: passes its packets to the session.
pub(super) async fn handle_post<H: SessionHandler>(
    session: &Arc<EngineIoSession<H>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, RequestError> {
    let mut guard =
        PollingRequestGuard::acquire(session, |transport| &mut transport.post_in_progress)?;
    let result = read_post_body(session, request).await;
    guard.is_completed = true;
    match result {
        Ok(()) => Ok(responses::packets_response(Bytes::from_static(b"ok"))),
        Err(reason) => {
            session.close(reason);
            Err(match reason {
                DisconnectReason::PayloadTooLarge => RequestError::TooLarge,
                _ => RequestError::BadRequest,
            })
        }
    }
}

async fn read_post_body<H: SessionHandler>(
    session: &Arc<EngineIoSession<H>>,
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

async fn handle_packets<H: SessionHandler>(
    session: &Arc<EngineIoSession<H>>,
    body: &[u8],
) -> Result<(), EngineIoPacketError> {
    for packet in decode_polling_body(body)? {
        let inbox_has_room = session.handle_packet(packet?);
        if !session.is_open() {
            break;
        }
        if !inbox_has_room {
            poll_fn(|cx| session.engine().handler().poll_inbox_ready(session, cx)).await;
        }
    }
    Ok(())
}

/// Guard of a GET or POST in progress. If it is dropped before the request is completed, the client has disconnected.
struct PollingRequestGuard<'a, H: SessionHandler> {
    session: &'a Arc<EngineIoSession<H>>,
    in_progress: fn(&mut TransportState) -> &mut bool,
    is_completed: bool,
}

impl<'a, H: SessionHandler> PollingRequestGuard<'a, H> {
    fn acquire(
        session: &'a Arc<EngineIoSession<H>>,
        in_progress: fn(&mut TransportState) -> &mut bool,
    ) -> Result<Self, RequestError> {
        let mut transport = session.transport_state.lock();
        if transport.active != TransportKind::Polling {
            return Err(RequestError::BadRequest);
        }
        if !transport.accepts_polls() {
            return Err(RequestError::UnknownSession);
        }
        if std::mem::replace(in_progress(&mut transport), true) {
            drop(transport);
            session.close(DisconnectReason::ProtocolError);
            return Err(RequestError::BadRequest);
        }
        Ok(Self {
            session,
            in_progress,
            is_completed: false,
        })
    }
}

impl<H: SessionHandler> Drop for PollingRequestGuard<'_, H> {
    fn drop(&mut self) {
        let mut transport = self.session.transport_state.lock();
        *(self.in_progress)(&mut transport) = false;
        let is_still_polling = transport.active == TransportKind::Polling;
        drop(transport);
        if is_still_polling && !self.is_completed {
            self.session.close(DisconnectReason::TransportClosed);
        }
    }
}
