//! Joining conversations, one by one or all at once when a client comes back.
//!
//! Always true: first the node follows the conversation, then what came before is read, then the socket is told of it, then
//! of what was held meanwhile; so nothing lies between, and nothing comes twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parlor_chat::access::Caller;
use parlor_chat::code::Code;
use parlor_chat::error::Error;
use parlor_chat::ids::ConversationId;
use parlor_chat::messages::{CatchUp, Message, Resumed};
use parlor_socketio::{Reason, Work};
use tokio::time::sleep;
use tracing::debug;

use super::call::{Asked, Call};
use super::rooms::{Cursor, Entering, Rooms};
use super::words::{ConversationResumed, Place};
use super::{Gateway, Socket, encode};
use crate::wire::Refusal;

/// Conversations that one client resumes at a time.
const AT_ONCE: usize = 8;
/// How often a conversation is tried that cannot be resumed for a reason that passes.
const TRIES: u32 = 5;
/// The pause before the n-th try is n times this.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a client is waited for that does not read, before it is cut.
const READING: Duration = Duration::from_secs(20);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// `conversation:join`.
pub(super) fn join(call: &Call<'_>) -> Option<Work> {
    let answer = call.answer();
    call.answered_by(true, move |asked: Asked<CatchUp>| async move {
        let Asked {
            gateway,
            socket,
            caller,
            body,
        } = asked;
        let id = ConversationId::new(&body.conversation_id).map_err(Error::from)?;
        let (entering, known) = enter(&gateway, &socket, &caller, &id, &body).await?;
        let acknowledged = super::call::done(&known);
        gateway.wait_for_room(&socket, acknowledged.len()).await;
        let there = entering.joined(cursor(&body, &known), || {
            answer.bytes(&socket, &acknowledged);
        });
        match there {
            true => Ok(()),
            false => Err(Error::NotAMember(id).into()),
        }
    })
}

/// Begins to join a conversation, and reads what came before.
async fn enter(
    gateway: &Arc<Gateway>,
    socket: &Arc<Socket>,
    caller: &Caller,
    id: &ConversationId,
    asked: &CatchUp,
) -> Result<(Entering, Resumed), Refusal> {
    let entering = begin(gateway, socket, id)?;
    entering.open().await?;
    let known = gateway.app.run(caller, asked.clone()).await?;
    Ok((entering, known))
}

/// What is no news after it was told as missed. What was not asked for is told as it comes: what is written may not have
/// been published yet, nor be in the history. A client that claims to know what is yet to come is told it all the same.
fn cursor(asked: &CatchUp, known: &Resumed) -> Cursor {
    let last = known.missed.last().map(|message| message.seq);
    Cursor {
        seq: asked
            .after_seq
            .max(last)
            .unwrap_or_default()
            .min(known.last_seq),
        rev: asked
            .after_seq
            .and(asked.after_rev)
            .map_or(0, |_| known.rev),
    }
}

/// Begins to join, if the socket may.
fn begin(
    gateway: &Arc<Gateway>,
    socket: &Arc<Socket>,
    id: &ConversationId,
) -> Result<Entering, Refusal> {
    let most = gateway.options.conversations;
    {
        let inner = socket.state().inner.lock();
        if inner.over {
            return Err(Error::SessionExpired.into());
        }
        if inner.joined.len() >= most && !inner.joined.contains(id) {
            return Err(Error::TooMany {
                what: "joined conversations",
                given: most + 1,
                most,
            }
            .into());
        }
    }
    let entering = Rooms::enter(gateway, id, socket);
    // One that ended before it was in the room did not take itself out of it.
    let over = socket.state().inner.lock().over;
    match over {
        true => Err(Error::SessionExpired.into()),
        false => Ok(entering),
    }
}

/// Joins all that a client had before it lost its connection, and tells what it missed.
pub(super) async fn resume(
    gateway: Arc<Gateway>,
    socket: Arc<Socket>,
    places: Box<[(String, Place)]>,
) {
    let caller = socket.state().caller();
    let all = stream::iter(places).for_each_concurrent(AT_ONCE, |(id, place)| {
        let (gateway, socket, caller) = (&gateway, &socket, &caller);
        async move {
            if let Err(refusal) = resume_one(gateway, socket, caller, &id, place).await {
                debug!(id, code = %refusal.code, "a conversation cannot be resumed");
                // Without a goodbye, so that it comes again, with the same wish.
                socket.disconnect(Reason::Shutdown);
            }
        }
    });
    all.await;
}

async fn resume_one(
    gateway: &Arc<Gateway>,
    socket: &Arc<Socket>,
    caller: &Caller,
    id: &str,
    place: Place,
) -> Result<(), Refusal> {
    if socket.state().inner.lock().over {
        return Ok(());
    }
    let Ok(id) = ConversationId::new(id) else {
        socket.send(&gateway.removed_text(id));
        return Ok(());
    };
    let mut tries = 0;
    let (entering, asked, known) = loop {
        match enter_at(gateway, socket, caller, &id, place).await {
            Ok(entered) => break entered,
            Err(refusal) if refusal.code.is_temporary() && tries < TRIES => {
                tries += 1;
                sleep(PAUSE * tries).await;
            }
            // What went wrong here says nothing of the conversation.
            Err(refusal) if refusal.code.is_temporary() || refusal.code == Code::Internal => {
                return Err(refusal);
            }
            Err(_) => {
                socket.send(&gateway.removed(&id));
                return Ok(());
            }
        }
    };
    for message in in_order(&known.missed, place.seq()) {
        let json = encode(message);
        gateway.wait_for_room(socket, json.len()).await;
        socket.send(&gateway.frame(missed_as(message, place.seq()), &json));
    }
    let after = cursor(&asked, &known);
    let resumed = ConversationResumed {
        conversation_id: id,
        last_seq: known.last_seq,
        rev: known.rev,
        unread: known.unread,
        typing: known.typing,
        has_more: known.has_more,
    };
    let frame = gateway.frame("conversation:resumed", &encode(&resumed));
    entering.joined(after, || socket.send(&frame));
    Ok(())
}

/// [`enter`] from where a client was.
async fn enter_at(
    gateway: &Arc<Gateway>,
    socket: &Arc<Socket>,
    caller: &Caller,
    id: &ConversationId,
    place: Place,
) -> Result<(Entering, CatchUp, Resumed), Refusal> {
    let rev = match place {
        Place::Seq(seq) => gateway.chat().messages().rev_of(id, seq).await?,
        Place::Both { rev, .. } => rev,
    };
    let asked = CatchUp {
        conversation_id: id.to_string(),
        after_seq: Some(place.seq()),
        after_rev: Some(rev),
    };
    let (entering, known) = enter(gateway, socket, caller, id, &asked).await?;
    Ok((entering, asked, known))
}

impl Place {
    const fn seq(self) -> u64 {
        match self {
            Self::Seq(seq) | Self::Both { seq, .. } => seq,
        }
    }
}

/// What was missed, in the order in which it is told: changes by their revision, then messages by their number. A connection
/// may be lost amid it, and whoever has seen a revision is to know all changes before it.
fn in_order(missed: &[Message], after: u64) -> Vec<&Message> {
    let mut all: Vec<&Message> = missed.iter().collect();
    all.sort_by_key(|it| match it.seq > after {
        true => (it.seq, 0),
        false => (0, it.rev),
    });
    all
}

/// By which event a client hears of a message that it missed.
fn missed_as(message: &Message, after: u64) -> &'static str {
    match (message.seq > after, &message.deleted_at) {
        (true, _) => "message:new",
        (false, Some(_)) => "message:deleted",
        (false, None) => "message:edited",
    }
}

impl Gateway {
    /// Waits until there is room for so many bytes in what waits for a client. One that does not read at all is cut: what it
    /// asked for is not kept for it any longer.
    async fn wait_for_room(&self, socket: &Socket, bytes: usize) {
        let most = self.options.buffer / 2;
        let mut waited = Duration::ZERO;
        loop {
            let queued = socket.queued();
            if queued == 0 || queued + bytes <= most {
                return;
            }
            if waited >= READING {
                return socket.disconnect(Reason::Flood);
            }
            sleep(LOOK).await;
            waited += LOOK;
        }
    }

    /// Refuses a handshake that wants to resume too much.
    pub(super) fn may_resume(&self, places: &HashMap<String, Place>) -> Result<(), Refusal> {
        let (given, most) = (places.len(), self.options.conversations);
        match given > most {
            true => Err(Refusal::new(
                Code::TooMany,
                format!("{given} conversations to resume, and at most {most} can be joined"),
            )),
            false => Ok(()),
        }
    }
}
