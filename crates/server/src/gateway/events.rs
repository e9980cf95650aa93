//! The events that are no operation of all gateways, or not quite.

use std::sync::Arc;

use parlor_chat::access::Caller;
use parlor_chat::chat::Chat;
use parlor_chat::code::Code;
use parlor_chat::error::{Error, Result as Done};
use parlor_chat::ids::ConversationId;
use parlor_chat::operation::{Info, Operation};
use parlor_chat::presence::SetPresence;
use parlor_chat::typing::{SetTyping, TypingSet};
use parlor_socketio::Work;

use super::call::{Asked, Call};
use super::words::{Conversation, Nothing, Refresh, SetStatus, TypingIn};
use crate::wire::Refusal;

/// `heartbeat`: answered at once. The session is asked for with the other events, and looked after meanwhile.
pub(super) fn heartbeat(call: &Call<'_>) -> Option<Work> {
    let gateway = call.gateway;
    gateway.beat(call.socket);
    if let Some(id) = call.event.ack() {
        call.socket.ack(id, gateway.next_beat());
    }
    None
}

impl From<TypingSet> for Nothing {
    fn from(_: TypingSet) -> Self {
        Self {}
    }
}

/// Says how the user wants to be seen. A socket is a device already, so none is registered.
impl Operation for SetStatus {
    const INFO: Info = SetPresence::INFO;
    type Reply = Nothing;

    async fn run(self, chat: &Chat, caller: &Caller) -> Done<Nothing> {
        chat.presence().set(caller.user()?, self.status).await?;
        Ok(Nothing {})
    }
}

/// `typing:start`.
pub(super) fn typing_start(call: &Call<'_>) -> Option<Work> {
    call.work(false, |asked| set_typing(asked, true))
}

/// `typing:stop`.
pub(super) fn typing_stop(call: &Call<'_>) -> Option<Work> {
    call.work(false, |asked| set_typing(asked, false))
}

async fn set_typing(asked: Asked<TypingIn>, typing: bool) -> Result<Nothing, Refusal> {
    let operation = SetTyping {
        conversation_id: asked.body.conversation_id,
        typing,
        username: asked.body.username,
    };
    let app = &asked.gateway.app;
    Ok(app.run(&asked.caller, operation).await?.into())
}

/// `conversation:leave`. One that was not joined is left already.
pub(super) fn leave(call: &Call<'_>) -> Option<Work> {
    call.work(true, |asked: Asked<Conversation>| async move {
        let id = ConversationId::new(&asked.body.conversation_id).map_err(Error::from)?;
        let socket = &asked.socket;
        socket.state().inner.lock().joined.remove(&id);
        asked.gateway.rooms.leave(&id, socket);
        Ok(Nothing {})
    })
}

/// `session:refresh`: another token of the same user.
pub(super) fn refresh(call: &Call<'_>) -> Option<Work> {
    call.work(true, |asked: Asked<Refresh>| async move {
        let (gateway, state) = (&asked.gateway, asked.socket.state());
        let address = asked.caller.address;
        let caller = gateway.app.verified(&asked.body.token, address).await?;
        let same = caller.role == asked.caller.role;
        let caller = match state.service && same {
            true => caller.acting_for(state.device.user.as_str())?,
            false => caller,
        };
        if !same || caller.user.as_ref() != Some(&state.device.user) {
            let text = "the token is another user's; connect anew with it";
            return Err(Refusal::new(Code::Forbidden, text));
        }
        let caller = gateway.app.with_session(caller).await?;
        gateway.lasts(state, &caller);
        state.inner.lock().caller = Arc::new(caller);
        Ok(Nothing {})
    })
}
