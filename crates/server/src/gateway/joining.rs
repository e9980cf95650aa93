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
use parlor_chat::messages::{CatchUpConversation, JoinReply, Message};
use parlor_socketio::{DisconnectReason, HandlerFuture};
use tokio::time::sleep;
use tracing::debug;

use super::call::{AuthorizedEvent, EventCall};
use super::rooms::{JoinedConversations, KnownPosition, PendingJoin};
use super::words::{ConversationResumed, Place};
use super::{GatewaySocket, SocketIoGateway, encode_json};
use crate::wire::Refusal;

/// Conversations that one client resumes at a time.
const MAX_CONCURRENT_RESUMES: usize = 8;
/// How often a conversation is tried that cannot be resumed for a reason that passes.
const MAX_RESUME_ATTEMPTS: u32 = 5;
/// The pause before the n-th try is n times this.
const RESUME_RETRY_STEP: Duration = Duration::from_millis(200);
/// How long a client is waited for that does not read, before it is cut.
const SEND_QUEUE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often it is looked at.
const SEND_QUEUE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// `conversation:join`.
pub(super) fn join_conversation(call: &EventCall<'_>) -> Option<HandlerFuture> {
    let answer = call.ack_target();
    call.run_without_ack(
        true,
        move |asked: AuthorizedEvent<CatchUpConversation>| async move {
            let AuthorizedEvent {
                gateway,
                socket,
                caller,
                body,
            } = asked;
            let id = ConversationId::new(&body.conversation_id).map_err(Error::from)?;
            let (entering, known) =
                join_and_catch_up(&gateway, &socket, &caller, &id, &body).await?;
            let acknowledged = super::call::encode_ok_ack(&known);
            gateway
                .wait_for_send_queue_space(&socket, acknowledged.len())
                .await;
            let there = entering.complete(position_after_reply(&body, &known), || {
                answer.send_encoded(&socket, &acknowledged);
            });
            match there {
                true => Ok(()),
                false => Err(Error::NotAMember(id).into()),
            }
        },
    )
}

/// Begins to join a conversation, and reads what came before.
async fn join_and_catch_up(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    caller: &Caller,
    id: &ConversationId,
    asked: &CatchUpConversation,
) -> Result<(PendingJoin, JoinReply), Refusal> {
    let entering = begin_join(gateway, socket, id)?;
    entering.subscribe().await?;
    let known = gateway.app.run_operation(caller, asked.clone()).await?;
    Ok((entering, known))
}

/// What is no news after it was told as missed. What was not asked for is told as it comes: what is written may not have
/// been published yet, nor be in the history. A client that claims to know what is yet to come is told it all the same.
fn position_after_reply(asked: &CatchUpConversation, known: &JoinReply) -> KnownPosition {
    let last = known.missed.last().map(|message| message.seq);
    KnownPosition {
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
fn begin_join(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    id: &ConversationId,
) -> Result<PendingJoin, Refusal> {
    let most = gateway.options.max_joined_conversations;
    {
        let inner = socket.state().mutable.lock();
        if inner.is_disconnected {
            return Err(Error::SessionExpired.into());
        }
        if inner.joined.len() >= most && !inner.joined.contains(id) {
            return Err(Error::TooMany {
                items: "joined conversations",
                given: most + 1,
                max: most,
            }
            .into());
        }
    }
    let entering = JoinedConversations::begin_join(gateway, id, socket);
    // One that ended before it was in the room did not take itself out of it.
    let over = socket.state().mutable.lock().is_disconnected;
    match over {
        true => Err(Error::SessionExpired.into()),
        false => Ok(entering),
    }
}

/// Joins all that a client had before it lost its connection, and tells what it missed.
pub(super) async fn resume_conversations(
    gateway: Arc<SocketIoGateway>,
    socket: Arc<GatewaySocket>,
    places: Box<[(String, Place)]>,
) {
    let caller = socket.state().caller();
    let all = stream::iter(places).for_each_concurrent(MAX_CONCURRENT_RESUMES, |(id, place)| {
        let (gateway, socket, caller) = (&gateway, &socket, &caller);
        async move {
            if let Err(refusal) = resume_conversation(gateway, socket, caller, &id, place).await {
                debug!(id, code = %refusal.code, "cannot resume a conversation; closing the socket");
                // Without a goodbye, so that it comes again, with the same wish.
                socket.disconnect(DisconnectReason::ServerShutdown);
            }
        }
    });
    all.await;
}

async fn resume_conversation(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    caller: &Caller,
    id: &str,
    place: Place,
) -> Result<(), Refusal> {
    if socket.state().mutable.lock().is_disconnected {
        return Ok(());
    }
    let Ok(id) = ConversationId::new(id) else {
        socket.send(&gateway.removed_text(id));
        return Ok(());
    };
    let mut tries = 0;
    let (entering, asked, known) = loop {
        match join_from_position(gateway, socket, caller, &id, place).await {
            Ok(entered) => break entered,
            Err(refusal) if refusal.code.is_retryable() && tries < MAX_RESUME_ATTEMPTS => {
                tries += 1;
                sleep(RESUME_RETRY_STEP * tries).await;
            }
            // What went wrong here says nothing of the conversation.
            Err(refusal) if refusal.code.is_retryable() || refusal.code == Code::Internal => {
                return Err(refusal);
            }
            Err(_) => {
                socket.send(&gateway.removed(&id));
                return Ok(());
            }
        }
    };
    for message in replay_order(&known.missed, place.seq()) {
        let json = encode_json(message);
        gateway.wait_for_send_queue_space(socket, json.len()).await;
        socket.send(
            &gateway.encode_recoverable_event(replay_event_name(message, place.seq()), &json),
        );
    }
    let after = position_after_reply(&asked, &known);
    let resumed = ConversationResumed {
        conversation_id: id,
        last_seq: known.last_seq,
        rev: known.rev,
        unread: known.unread,
        typing: known.typing,
        has_more: known.has_more,
    };
    let frame = gateway.encode_recoverable_event("conversation:resumed", &encode_json(&resumed));
    entering.complete(after, || socket.send(&frame));
    Ok(())
}

/// [`enter`] from where a client was.
async fn join_from_position(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    caller: &Caller,
    id: &ConversationId,
    place: Place,
) -> Result<(PendingJoin, CatchUpConversation, JoinReply), Refusal> {
    let rev = match place {
        Place::SeqOnly(seq) => gateway.chat().messages().rev_at_seq(id, seq).await?,
        Place::SeqAndRev { rev, .. } => rev,
    };
    let asked = CatchUpConversation {
        conversation_id: id.to_string(),
        after_seq: Some(place.seq()),
        after_rev: Some(rev),
    };
    let (entering, known) = join_and_catch_up(gateway, socket, caller, id, &asked).await?;
    Ok((entering, asked, known))
}

impl Place {
    const fn seq(self) -> u64 {
        match self {
            Self::SeqOnly(seq) | Self::SeqAndRev { seq, .. } => seq,
        }
    }
}

/// What was missed, in the order in which it is told: changes by their revision, then messages by their number. A connection
/// may be lost amid it, and whoever has seen a revision is to know all changes before it.
fn replay_order(missed: &[Message], after: u64) -> Vec<&Message> {
    let mut all: Vec<&Message> = missed.iter().collect();
    all.sort_by_key(|it| match it.seq > after {
        true => (it.seq, 0),
        false => (0, it.rev),
    });
    all
}

/// By which event a client hears of a message that it missed.
fn replay_event_name(message: &Message, after: u64) -> &'static str {
    match (message.seq > after, &message.deleted_at) {
        (true, _) => "message:new",
        (false, Some(_)) => "message:deleted",
        (false, None) => "message:edited",
    }
}

impl SocketIoGateway {
    /// Waits until there is room for so many bytes in what waits for a client. One that does not read at all is cut: what it
    /// asked for is not kept for it any longer.
    async fn wait_for_send_queue_space(&self, socket: &GatewaySocket, bytes: usize) {
        let most = self.options.max_send_queue_bytes / 2;
        let mut waited = Duration::ZERO;
        loop {
            let queued = socket.send_queue_bytes();
            if queued == 0 || queued + bytes <= most {
                return;
            }
            if waited >= SEND_QUEUE_TIMEOUT {
                return socket.disconnect(DisconnectReason::SendQueueOverflow);
            }
            sleep(SEND_QUEUE_POLL_INTERVAL).await;
            waited += SEND_QUEUE_POLL_INTERVAL;
        }
    }

    /// Refuses a handshake that wants to resume too much.
    pub(super) fn check_resume_size(&self, places: &HashMap<String, Place>) -> Result<(), Refusal> {
        let (given, most) = (places.len(), self.options.max_joined_conversations);
        match given > most {
            true => Err(Refusal::new(
                Code::TooMany,
                format!("{given} conversations to resume exceed the maximum of {most}"),
            )),
            false => Ok(()),
        }
    }
}
