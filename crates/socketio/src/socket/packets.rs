//! Packets, one after the other.

use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;

use super::connecting::enter;
use super::hub::Hub;
use super::links::MOST;
use super::{App, Event, Work};
use crate::Reason;
use crate::engine::Session;
use crate::packet::placeholder;
use crate::packet::socket::{Kind, Malformed, Packet};

/// Packets handled by a task of its own before others have their turn.
const BUDGET: usize = 32;

impl<A: App> Hub<A> {
    /// Handles a packet. What it may not say ends the session.
    pub(super) fn run(
        self: &Arc<Self>,
        session: &Arc<Session<Self>>,
        text: &str,
        parts: &[Bytes],
    ) -> Option<Work> {
        let ends = session.ends();
        if !ends.is_none_or(|reason| Self::hears(session, reason)) {
            return None;
        }
        let is_gone = ends.is_some();
        let handled =
            Packet::decode(text).and_then(|packet| self.handle(session, &packet, parts, is_gone));
        handled.unwrap_or_else(|malformed| {
            tracing::debug!(%malformed, "a packet that cannot be handled");
            session.close(Reason::BadPacket);
            self.lose_ended(session);
            None
        })
    }

    fn handle(
        self: &Arc<Self>,
        session: &Arc<Session<Self>>,
        packet: &Packet<'_>,
        parts: &[Bytes],
        is_gone: bool,
    ) -> Result<Option<Work>, Malformed> {
        let (socket, count) = session.state().lock().find(packet.namespace);
        match (packet.kind, socket) {
            // It has not come in, or has found another session.
            (_, None) if is_gone => Ok(None),
            (Kind::Connect, None) if count < MOST => {
                let auth = packet.object()?.map(ToOwned::to_owned);
                let session = Arc::clone(session);
                let namespace = packet.namespace.to_owned();
                Ok(Some(Box::pin(enter(
                    Arc::clone(self),
                    session,
                    namespace,
                    auth,
                ))))
            }
            (Kind::Disconnect, Some(socket)) => {
                session.state().lock().remove(&socket);
                if count == 1 {
                    session.engine().watch(session);
                }
                self.end(&socket, Reason::ClientLeft);
                Ok(None)
            }
            // It may have left before it heard that it was let in, or refused.
            (Kind::Disconnect, None) => Ok(None),
            (Kind::Event | Kind::BinaryEvent, Some(socket)) => {
                let event = packet.event()?;
                if packet.kind == Kind::BinaryEvent {
                    placeholder::check(packet.data, parts.len())?;
                }
                // Whom the application has sent away meanwhile is not heard any more.
                if is_gone && socket.link().doomed.is_some() {
                    return Ok(None);
                }
                let event = Event::new(event, packet.id, parts);
                Ok(self.app.event(&socket, &event))
            }
            (Kind::Ack | Kind::BinaryAck, Some(_)) => packet.args().map(|_| None),
            _ => Err(Malformed::Type),
        }
    }

    /// Does the work of a packet, then handles those that have waited. Work that takes longer goes on in a task of its own.
    pub(super) fn go_on(self: &Arc<Self>, session: &Arc<Session<Self>>, mut work: Option<Work>) {
        loop {
            if let Some(mut work) = work {
                // Much of it never waits. The task below asks again, so that nobody needs to be woken by this one.
                let mut nobody = Context::from_waker(Waker::noop());
                if work.as_mut().poll(&mut nobody).is_pending() {
                    session.state().lock().is_driven = true;
                    let task = drive(Arc::clone(self), Arc::clone(session), work);
                    return session.engine().spawn(task);
                }
            }
            match self.next(session) {
                Some(next) => work = next,
                None => return,
            }
        }
    }

    /// Handles the next packet that waits. If there is none, the sockets end that only waited for it.
    fn next(self: &Arc<Self>, session: &Arc<Session<Self>>) -> Option<Option<Work>> {
        let next = session.state().lock().next(self.room);
        match next {
            Ok(waiting) => Some(self.run(session, &waiting.text, &waiting.parts)),
            Err(ends) => {
                self.lose_all(session, &ends);
                None
            }
        }
    }
}

async fn drive<A: App>(hub: Arc<Hub<A>>, session: Arc<Session<Hub<A>>>, work: Work) {
    let guard = Stuck(&session);
    let mut work = Some(work);
    let mut budget = BUDGET;
    loop {
        if let Some(work) = work {
            work.await;
        }
        budget -= 1;
        if budget == 0 {
            budget = BUDGET;
            tokio::task::yield_now().await;
        }
        match hub.next(&session) {
            Some(next) => work = next,
            None => break,
        }
    }
    std::mem::forget(guard);
}

/// A session whose work broke off would wait for ever.
struct Stuck<'a, A: App>(&'a Arc<Session<Hub<A>>>);

impl<A: App> Drop for Stuck<'_, A> {
    fn drop(&mut self) {
        let session = Arc::clone(self.0);
        session.cut(Reason::ServerCut);
        session.state().lock().is_driven = false;
        // Not from here: it may be unwinding, and the application is told.
        let engine = Arc::clone(session.engine());
        engine.spawn(async move { session.engine().above().lose_ended(&session) });
    }
}
