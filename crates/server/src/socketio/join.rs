//! Joins conversations: one by an event, or all of the handshake's `resume` after a reconnect.
//!
//! ```text
//! conversation:join, or one entry of `resume`
//!   │ begin_join           live events are held for this socket from now on
//!   │ subscribe            this node receives the events of the conversation (once for all sockets)
//!   │ CatchUpConversation  reads the messages and changes after the client's position
//!   │ send queue           waits for space; a client that does not read is disconnected
//!   ▼
//! complete ── queues the reply (`resume`: the missed events and conversation:resumed), then the held events after it
//!   ▼
//! joined ── conversation:leave, disconnect, member removed, conversation deleted ──▶ not joined
//!
//! error or cancellation before `complete`: the join is undone; a socket that had joined before stays joined
//! newer join of the same socket: the older one sends nothing; the held events wait for the newer one
//! ```
//!
//! Invariants:
//! 1. The node is subscribed before the missed messages are read, and live events are held until the reply is queued.
//!    So no event is lost in between, and none is sent twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::Error;
use parlor_chat::api::error_code::Code;
use parlor_chat::ids::ConversationId;
use parlor_chat::messages::{CatchUpConversation, JoinReply, Message};
use parlor_socketio::{DisconnectReason, HandlerFuture};
use tokio::time::sleep;
use tracing::debug;

use super::bodies::{ConversationResumed, Place};
use super::dispatch::{AuthorizedEvent, EventCall};
use super::rooms::{JoinedConversations, KnownPosition, PendingJoin};
use super::{GatewaySocket, SocketIoGateway, encode_json};
use crate::api_error::ApiError;

/// Conversations that one client resumes at a time.
const MAX_CONCURRENT_RESUMES: usize = 8;
/// Retries of a conversation that fails to resume with a retryable error.
const MAX_RESUME_ATTEMPTS: u32 = 5;
/// The delay before the n-th retry is n times this.
const RESUME_RETRY_STEP: Duration = Duration::from_millis(200);
/// How long a send queue may stay full before its client is disconnected.
const SEND_QUEUE_TIMEOUT: Duration = Duration::from_secs(20);
/// Poll interval of the send queue.
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
            let acknowledged = super::dispatch::encode_ok_ack(&known);
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

/// Begins a join, subscribes the node, and reads what the client missed.
async fn join_and_catch_up(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    caller: &Caller,
    id: &ConversationId,
    asked: &CatchUpConversation,
) -> Result<(PendingJoin, JoinReply), ApiError> {
    let entering = begin_join(gateway, socket, id)?;
    entering.subscribe().await?;
    let known = gateway.app.run_operation(caller, asked.clone()).await?;
    Ok((entering, known))
}

/// Position of the client after the reply; live events up to it are dropped. Without `after_seq` or `after_rev` in the
/// request that part is 0 (`seq`: the last message of the reply), because a committed message may be neither published
/// nor in the history that the client loads. A `seq` beyond the last message is lowered to it, so that later messages
/// are delivered.
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

/// Checks the number of joined conversations and begins the join.
fn begin_join(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    id: &ConversationId,
) -> Result<PendingJoin, ApiError> {
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
    // If the socket disconnected before it was listed, `on_disconnected` has not removed it; dropping the join does.
    let over = socket.state().mutable.lock().is_disconnected;
    match over {
        true => Err(Error::SessionExpired.into()),
        false => Ok(entering),
    }
}

/// Joins the conversations of the handshake's `resume` and sends what the client missed.
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
                // This reason sends no DISCONNECT packet, so the client reconnects and resumes again.
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
) -> Result<(), ApiError> {
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
            // These errors do not mean that the conversation is gone or closed to the user.
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

/// [`join_and_catch_up`] from a resume position.
async fn join_from_position(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    caller: &Caller,
    id: &ConversationId,
    place: Place,
) -> Result<(PendingJoin, CatchUpConversation, JoinReply), ApiError> {
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

/// Replay order: changes by `rev`, then new messages by `seq`. The connection can be lost in between, and a client that
/// received a revision must have received all changes before it.
fn replay_order(missed: &[Message], after: u64) -> Vec<&Message> {
    let mut all: Vec<&Message> = missed.iter().collect();
    all.sort_by_key(|it| match it.seq > after {
        true => (it.seq, 0),
        false => (0, it.rev),
    });
    all
}

/// Name of the event that sends a missed message or change.
fn replay_event_name(message: &Message, after: u64) -> &'static str {
    match (message.seq > after, &message.deleted_at) {
        (true, _) => "message:new",
        (false, Some(_)) => "message:deleted",
        (false, None) => "message:edited",
    }
}

impl SocketIoGateway {
    /// Waits until the send queue of a socket has space for `bytes`. Disconnects a client that does not read within
    /// [`SEND_QUEUE_TIMEOUT`].
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

    /// Rejects a handshake that resumes more conversations than a socket may join.
    pub(super) fn check_resume_size(
        &self,
        places: &HashMap<String, Place>,
    ) -> Result<(), ApiError> {
        let (given, most) = (places.len(), self.options.max_joined_conversations);
        match given > most {
            true => Err(ApiError::new(
                Code::TooMany,
                format!("{given} conversations to resume exceed the maximum of {most}"),
            )),
            false => Ok(()),
        }
    }
}
