//! Handlers of the events that do not run an operation unchanged.

use std::sync::Arc;

use parlor_chat::Chat;
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::{Error, Result as Done};
use parlor_chat::api::error_code::Code;
use parlor_chat::api::operation::{Operation, OperationInfo};
use parlor_chat::ids::ConversationId;
use parlor_chat::presence::SetPresence;
use parlor_chat::typing::{SetTyping, TypingReply};
use parlor_socketio::HandlerFuture;

use super::bodies::{Conversation, Nothing, Refresh, SetStatus, TypingIn};
use super::dispatch::{AuthorizedEvent, EventCall};
use crate::api_error::ApiError;

/// `heartbeat`: acknowledged at once, without a session check. Other events check the session; a deferred task renews
/// it if none does.
pub(super) fn heartbeat(call: &EventCall<'_>) -> Option<HandlerFuture> {
    let gateway = call.gateway;
    gateway.record_heartbeat(call.socket);
    if let Some(id) = call.event.ack_id {
        call.socket.ack(id, gateway.heartbeat_ack());
    }
    None
}

impl From<TypingReply> for Nothing {
    fn from(_: TypingReply) -> Self {
        Self {}
    }
}

/// Sets the status of the user. The socket is already a device, so none is registered.
impl Operation for SetStatus {
    const INFO: OperationInfo = SetPresence::INFO;
    type Reply = Nothing;

    async fn run(self, chat: &Chat, caller: &Caller) -> Done<Nothing> {
        chat.presence().set(caller.user()?, self.status).await?;
        Ok(Nothing {})
    }
}

/// `typing:start`.
pub(super) fn typing_start(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(false, |asked| set_typing(asked, true))
}

/// `typing:stop`.
pub(super) fn typing_stop(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(false, |asked| set_typing(asked, false))
}

async fn set_typing(asked: AuthorizedEvent<TypingIn>, typing: bool) -> Result<Nothing, ApiError> {
    let operation = SetTyping {
        conversation_id: asked.body.conversation_id,
        typing,
        username: asked.body.username,
    };
    let app = &asked.gateway.app;
    Ok(app.run_operation(&asked.caller, operation).await?.into())
}

/// `conversation:leave`. Leaving a conversation that is not joined succeeds.
pub(super) fn leave_conversation(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |asked: AuthorizedEvent<Conversation>| async move {
        let id = ConversationId::new(&asked.body.conversation_id).map_err(Error::from)?;
        let socket = &asked.socket;
        socket.state().mutable.lock().joined.remove(&id);
        asked.gateway.joined_conversations.leave(&id, socket);
        Ok(Nothing {})
    })
}

/// `session:refresh`: replaces the token of the connection by another one of the same user and role.
pub(super) fn refresh_session(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |asked: AuthorizedEvent<Refresh>| async move {
        let (gateway, state) = (&asked.gateway, asked.socket.state());
        let address = asked.caller.ip_address;
        let caller = gateway.app.verified(&asked.body.token, address).await?;
        let same = caller.role == asked.caller.role;
        let caller = match state.is_service && same {
            true => caller.on_behalf_of(state.device.user.as_str())?,
            false => caller,
        };
        if !same || caller.user.as_ref() != Some(&state.device.user) {
            let text = "the token belongs to another user or role; open a new connection with it";
            return Err(ApiError::new(Code::Forbidden, text));
        }
        let caller = gateway.app.check_session(caller).await?;
        gateway.set_token_expiry(state, &caller);
        state.mutable.lock().caller = Arc::new(caller);
        Ok(Nothing {})
    })
}
