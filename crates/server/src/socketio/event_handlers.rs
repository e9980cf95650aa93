//! Handlers of the events that do not run an operation unchanged.

use std::sync::Arc;

use parlor_chat::Chat;
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::{Error, Result as ChatResult};
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{Operation, OperationInfo};
use parlor_chat::ids::ConversationId;
use parlor_chat::presence::SetPresence;
use parlor_chat::typing::{SetTyping, TypingReply};
use parlor_socketio::HandlerFuture;

use super::bodies::{
    ConversationRef, EmptyObject, RefreshSession, SetPresenceStatus, TypingRequest,
};
use super::dispatch::{AuthorizedEvent, EventCall};
use crate::api_error::ApiError;
use crate::app_state::resolve_acting_user;

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

impl From<TypingReply> for EmptyObject {
    fn from(_: TypingReply) -> Self {
        Self {}
    }
}

/// Sets the status of the user. The socket is already a device, so none is registered.
impl Operation for SetPresenceStatus {
    const INFO: OperationInfo = SetPresence::INFO;
    type Reply = EmptyObject;

    async fn run(self, chat: &Chat, caller: &Caller) -> ChatResult<EmptyObject> {
        chat.presence()
            .set_status(caller.require_user()?, self.status)
            .await?;
        Ok(EmptyObject {})
    }
}

/// `typing:start`.
pub(super) fn typing_start(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(false, |event| set_typing(event, true))
}

/// `typing:stop`.
pub(super) fn typing_stop(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(false, |event| set_typing(event, false))
}

async fn set_typing(
    event: AuthorizedEvent<TypingRequest>,
    typing: bool,
) -> Result<EmptyObject, ApiError> {
    let operation = SetTyping {
        conversation_id: event.body.conversation_id,
        typing,
        username: event.body.username,
    };
    let app = &event.gateway.app;
    Ok(app.run_operation(&event.caller, operation).await?.into())
}

/// `conversation:leave`. Leaving a conversation that is not joined succeeds.
pub(super) fn leave_conversation(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |event: AuthorizedEvent<ConversationRef>| async move {
        let id = ConversationId::new(&event.body.conversation_id).map_err(Error::from)?;
        let socket = &event.socket;
        socket.state().mutable.lock().joined.remove(&id);
        event.gateway.joined_conversations.leave(&id, socket);
        Ok(EmptyObject {})
    })
}

/// `session:refresh`: replaces the token of the connection by another one of the same user and role.
pub(super) fn refresh_session(call: &EventCall<'_>) -> Option<HandlerFuture> {
    call.run_and_ack(true, |event: AuthorizedEvent<RefreshSession>| async move {
        let (gateway, state) = (&event.gateway, event.socket.state());
        let address = event.caller.ip_address;
        let caller = gateway.app.verify_token(&event.body.token, address).await?;
        let same_role = caller.role == event.caller.role;
        let is_service = state.is_service && same_role;
        let user = is_service.then(|| state.device.user.as_str());
        let caller = resolve_acting_user(caller, user)?;
        if !same_role || caller.user.as_ref() != Some(&state.device.user) {
            let text = "the token belongs to another user or role; open a new connection with it";
            return Err(ApiError::new(ErrorCode::Forbidden, text));
        }
        let caller = gateway.app.check_session(caller).await?;
        gateway.set_token_expiry(state, &caller);
        state.mutable.lock().caller = Arc::new(caller);
        Ok(EmptyObject {})
    })
}
