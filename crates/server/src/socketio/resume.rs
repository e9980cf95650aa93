//! Resumes the conversations of a handshake after a reconnect, on any node.
//!
//! Invariants:
//! 1. A conversation that cannot be resumed now closes the socket, so that its client connects again; one that is gone
//!    or closed to the user is reported with `conversation:removed`.
//! 2. Missed changes are sent in the order of their `rev`, then new messages in the order of their `seq`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::ids::ConversationId;
use parlor_chat::messages::{CatchUpConversation, JoinReply, Message};
use parlor_socketio::DisconnectReason;
use tokio::time::sleep;
use tracing::debug;

use super::bodies::{ConversationResumed, ResumePosition};
use super::join::{join_and_catch_up, position_after_reply};
use super::rooms::PendingJoin;
use super::server_events::{ConversationResumedEvent, MessageNewEvent};
use super::{GatewaySocket, SocketIoGateway, encode_json};
use crate::api_error::ApiError;

/// Conversations that one client resumes at a time.
const MAX_CONCURRENT_RESUMES: usize = 8;
/// Retries of a conversation that fails to resume with a retryable error.
const MAX_RESUME_ATTEMPTS: u32 = 5;
/// The delay before the n-th retry is n times this.
const RESUME_RETRY_STEP: Duration = Duration::from_millis(200);

/// Joins the conversations of the handshake's `resume` and sends what the client missed.
pub(super) async fn resume_conversations(
    gateway: Arc<SocketIoGateway>,
    socket: Arc<GatewaySocket>,
    positions: Box<[(String, ResumePosition)]>,
) {
    let caller = socket.state().caller();
    let all = stream::iter(positions).for_each_concurrent(MAX_CONCURRENT_RESUMES, |(id, position)| {
        let (gateway, socket, caller) = (&gateway, &socket, &caller);
        async move {
            if let Err(error) = resume_conversation(gateway, socket, caller, &id, position).await {
                debug!(id, code = %error.code, "cannot resume a conversation; closing the socket");
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
    position: ResumePosition,
) -> Result<(), ApiError> {
    if socket.state().mutable.lock().is_disconnected {
        return Ok(());
    }
    let Ok(id) = ConversationId::new(id) else {
        socket.send(&gateway.encode_removed_event(id));
        return Ok(());
    };
    let mut attempts = 0;
    let (pending_join, request, reply) = loop {
        match join_from_position(gateway, socket, caller, &id, position).await {
            Ok(entered) => break entered,
            Err(error) if error.code.is_retryable() && attempts < MAX_RESUME_ATTEMPTS => {
                attempts += 1;
                sleep(RESUME_RETRY_STEP * attempts).await;
            }
            // These errors do not mean that the conversation is gone or closed to the user.
            Err(error) if error.code.is_retryable() || error.code == ErrorCode::Internal => {
                return Err(error);
            }
            Err(_) => {
                socket.send(&gateway.encode_removed_event(id.as_str()));
                return Ok(());
            }
        }
    };
    for message in replay_order(&reply.missed, position.seq()) {
        let json = encode_json(message);
        gateway.wait_for_send_queue_space(socket, json.len()).await;
        let frame = match message.seq > position.seq() {
            true => gateway.encode_body::<MessageNewEvent>(&json),
            false => gateway.encode_message_change(message.deleted_at.is_some(), &json),
        };
        socket.send(&frame);
    }
    let after = position_after_reply(&request, &reply);
    let resumed = ConversationResumed {
        conversation_id: id,
        last_seq: reply.last_seq,
        rev: reply.rev,
        unread: reply.unread,
        typing: reply.typing,
        members_version: reply.members_version,
        conversation: reply.conversation,
        has_more: reply.has_more,
    };
    let frame = gateway.encode::<ConversationResumedEvent>(&resumed);
    pending_join.complete(after, || socket.send(&frame));
    Ok(())
}

/// [`join_and_catch_up`] from a resume position.
async fn join_from_position(
    gateway: &Arc<SocketIoGateway>,
    socket: &Arc<GatewaySocket>,
    caller: &Caller,
    id: &ConversationId,
    position: ResumePosition,
) -> Result<(PendingJoin, CatchUpConversation, JoinReply), ApiError> {
    let rev = match position {
        ResumePosition::SeqOnly(seq) => gateway.chat().messages().rev_at_seq(id, seq).await?,
        ResumePosition::SeqAndRev { rev, .. } => rev,
    };
    let request = CatchUpConversation {
        conversation_id: id.to_string(),
        after_seq: Some(position.seq()),
        after_rev: Some(rev),
    };
    let (pending_join, reply) = join_and_catch_up(gateway, socket, caller, id, &request).await?;
    Ok((pending_join, request, reply))
}

impl ResumePosition {
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

impl SocketIoGateway {
    /// Rejects a handshake that resumes more conversations than a socket may join.
    pub(super) fn check_resume_size(
        &self,
        positions: &HashMap<String, ResumePosition>,
    ) -> Result<(), ApiError> {
        let (given, max) = (positions.len(), self.options.max_joined_conversations);
        match given > max {
            true => Err(ApiError::new(
                ErrorCode::TooMany,
                format!("{given} conversations to resume exceed the maximum of {max}"),
            )),
            false => Ok(()),
        }
    }
}
