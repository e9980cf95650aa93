//! Joins a conversation: its missed events first, then its live events. [`resume`](super::resume) does this for all
//! conversations of a handshake.
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

use std::sync::Arc;
use std::time::Duration;

use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::Error;
use parlor_chat::ids::ConversationId;
use parlor_chat::messages::{CatchUpConversation, JoinReply};
use parlor_socketio::{DisconnectReason, HandlerFuture};
use tokio::time::sleep;

use super::dispatch::{AuthorizedEvent, EventCall};
use super::rooms::{JoinedConversations, KnownPosition, PendingJoin};
use super::{GatewaySocket, SocketIoGateway};
use crate::api_error::ApiError;

/// How long a send queue may stay full before its client is disconnected.
const SEND_QUEUE_TIMEOUT: Duration = Duration::from_secs(20);
/// Poll interval of the send queue.
const SEND_QUEUE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// `conversation:join`.
pub(super) fn join_conversation(call: &EventCall<'_>) -> Option<HandlerFuture> {
    let ack = call.ack_target();
    call.run_without_ack(
        true,
        move |request: AuthorizedEvent<CatchUpConversation>| async move {
            let AuthorizedEvent {
                gateway,
                socket,
                caller,
                body,
            } = request;
            let id = ConversationId::new(&body.conversation_id).map_err(Error::from)?;
            let (pending_join, reply) =
                join_and_catch_up(&gateway, &socket, &caller, &id, &body).await?;
            let encoded = super::dispatch::encode_ok_ack(&reply);
            gateway
                .wait_for_send_queue_space(&socket, encoded.len())
                .await;
            let is_joined = pending_join.complete(position_after_reply(&body, &reply), || {
                ack.send_encoded(&socket, &encoded);
            });
            match is_joined {
                true => Ok(()),
                false => Err(Error::NotAMember(id).into()),
            }
        },
    )
}

/// Begins a join, subscribes the node, and reads what the client missed.
pub(super) async fn join_and_catch_up(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    caller: &Caller,
    id: &ConversationId,
    request: &CatchUpConversation,
) -> Result<(PendingJoin, JoinReply), ApiError> {
    let pending_join = begin_join(gateway, socket, id)?;
    pending_join.subscribe().await?;
    let reply = gateway.app.run_operation(caller, request.clone()).await?;
    Ok((pending_join, reply))
}

/// Position of the client after the reply; live events up to it are dropped. Without `after_seq` or `after_rev` in the
/// request that part is 0 (`seq`: the last message of the reply), because a committed message may be neither published
/// nor in the history that the client loads. A `seq` beyond the last message is lowered to it, so that later messages
/// are delivered.
pub(super) fn position_after_reply(
    request: &CatchUpConversation,
    reply: &JoinReply,
) -> KnownPosition {
    let last = reply.missed.last().map(|message| message.seq);
    KnownPosition {
        seq: request
            .after_seq
            .max(last)
            .unwrap_or_default()
            .min(reply.last_seq),
        rev: request
            .after_seq
            .and(request.after_rev)
            .map_or(0, |_| reply.rev),
    }
}

/// Checks the number of joined conversations and begins the join.
fn begin_join(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    id: &ConversationId,
) -> Result<PendingJoin, ApiError> {
    let max = gateway.options.max_joined_conversations;
    {
        let mutable = socket.state().mutable.lock();
        if mutable.is_disconnected {
            return Err(Error::SessionExpired.into());
        }
        if mutable.joined.len() >= max && !mutable.joined.contains(id) {
            return Err(Error::TooMany {
                items: "joined conversations",
                given: max + 1,
                max,
            }
            .into());
        }
    }
    let pending_join = JoinedConversations::begin_join(gateway, id, socket);
    // If the socket disconnected before it was listed, `on_disconnected` has not removed it; dropping the join does.
    let over = socket.state().mutable.lock().is_disconnected;
    match over {
        true => Err(Error::SessionExpired.into()),
        false => Ok(pending_join),
    }
}

impl SocketIoGateway {
    /// Waits until the send queue of a socket has space for `bytes`. Disconnects a client that does not read within
    /// [`SEND_QUEUE_TIMEOUT`].
    pub(super) async fn wait_for_send_queue_space(&self, socket: &GatewaySocket, bytes: usize) {
        let max = self.options.server.max_send_queue_bytes / 2;
        let mut waited = Duration::ZERO;
        loop {
            let queued = socket.send_queue_bytes();
            if queued == 0 || queued + bytes <= max {
                return;
            }
            if waited >= SEND_QUEUE_TIMEOUT {
                return socket.disconnect(DisconnectReason::SendQueueOverflow);
            }
            sleep(SEND_QUEUE_POLL_INTERVAL).await;
            waited += SEND_QUEUE_POLL_INTERVAL;
        }
    }
}
