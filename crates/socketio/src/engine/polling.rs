//! Polling: a request that waits for packets, and one that brings some.
//!
//! Always true: at most one of each is under way for a session; a second one ends it.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::{Request, Response};
use tokio::time::timeout;

use super::Above;
use super::answer::{self, Refusal};
use super::out::{Out, Transport};
use super::session::Session;
use crate::packet::engine::split;
use crate::{Reason, packet};

/// Waits for packets and takes them away.
pub(super) async fn fetch<U: Above>(
    session: &Arc<Session<U>>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let mut turn = Turn::begin(session, |out| &mut out.polling)?;
    let body = poll_fn(|cx| session.poll_payload(cx)).await;
    turn.is_done = true;
    Ok(answer::text(body.into()))
}

/// Takes the packets that a client brings.
pub(super) async fn take<U: Above>(
    session: &Arc<Session<U>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let mut turn = Turn::begin(session, |out| &mut out.posting)?;
    let taken = read(session, request).await;
    turn.is_done = true;
    match taken {
        Ok(()) => Ok(answer::text(Bytes::from_static(b"ok"))),
        Err(reason) => {
            session.close(reason);
            Err(match reason {
                Reason::TooLarge => Refusal::TooLarge,
                _ => Refusal::BadRequest,
            })
        }
    }
}

async fn read<U: Above>(
    session: &Arc<Session<U>>,
    request: Request<Incoming>,
) -> Result<(), Reason> {
    let options = session.engine().options();
    if request.body().size_hint().lower() > options.max_payload as u64 {
        return Err(Reason::TooLarge);
    }
    let body = Limited::new(request.into_body(), options.max_payload);
    // As long as a client may be silent.
    let body = timeout(options.ping_interval + options.ping_timeout, body.collect())
        .await
        .map_err(|_| Reason::TransportClosed)?
        .map_err(
            |error| match error.is::<http_body_util::LengthLimitError>() {
                true => Reason::TooLarge,
                false => Reason::TransportClosed,
            },
        )?
        .to_bytes();
    feed(session, &body).await.map_err(|_| Reason::BadPacket)
}

async fn feed<U: Above>(
    session: &Arc<Session<U>>,
    body: &[u8],
) -> Result<(), packet::engine::Malformed> {
    for packet in split(body)? {
        let more = session.receive(packet?);
        if !session.is_open() {
            break;
        }
        if !more {
            poll_fn(|cx| session.engine().above().poll_room(session, cx)).await;
        }
    }
    Ok(())
}

/// The right to poll, or to post. Dropped before it is done, the client has gone.
struct Turn<'a, U: Above> {
    session: &'a Arc<Session<U>>,
    flag: fn(&mut Out) -> &mut bool,
    is_done: bool,
}

impl<'a, U: Above> Turn<'a, U> {
    fn begin(
        session: &'a Arc<Session<U>>,
        flag: fn(&mut Out) -> &mut bool,
    ) -> Result<Self, Refusal> {
        let mut out = session.out().lock();
        if out.transport != Transport::Polling {
            return Err(Refusal::BadRequest);
        }
        if !out.is_fetchable() {
            return Err(Refusal::UnknownSession);
        }
        if std::mem::replace(flag(&mut out), true) {
            drop(out);
            session.close(Reason::BadPacket);
            return Err(Refusal::BadRequest);
        }
        Ok(Self {
            session,
            flag,
            is_done: false,
        })
    }
}

impl<U: Above> Drop for Turn<'_, U> {
    fn drop(&mut self) {
        let mut out = self.session.out().lock();
        *(self.flag)(&mut out) = false;
        let is_its = out.transport == Transport::Polling;
        drop(out);
        if is_its && !self.is_done {
            self.session.close(Reason::TransportClosed);
        }
    }
}
