//! One event of a client: decode the body, authorize the caller, run, acknowledge.
//!
//! Invariants:
//! 1. An event with an ack id is acknowledged with `{ok: true, …}` or `{ok: false, error}`. The error of an event
//!    without an ack id is not reported.
//! 2. The caller's session is checked before `work` runs.

use std::sync::Arc;

use parlor_chat::api::caller::Caller;
use parlor_chat::api::operation::Operation;
use parlor_socketio::{HandlerFuture, IncomingEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bodies::{ErrorAck, ErrorBody};
use super::{GatewaySocket, SocketIoGateway};
use crate::api_error::ApiError;

/// Initial capacity in bytes; most acknowledgements fit.
const ACK_CAPACITY: usize = 512;

/// Handles an event: at once, or in the returned future.
pub(super) type EventHandler = fn(&EventCall<'_>) -> Option<HandlerFuture>;

/// A received event with its socket.
pub(super) struct EventCall<'a> {
    pub(super) gateway: &'a Arc<SocketIoGateway>,
    pub(super) socket: &'a Arc<GatewaySocket>,
    pub(super) event: &'a IncomingEvent<'a>,
}

/// A decoded event with its authorized caller.
pub(super) struct AuthorizedEvent<B> {
    pub(super) gateway: Arc<SocketIoGateway>,
    pub(super) socket: Arc<GatewaySocket>,
    pub(super) caller: Caller,
    pub(super) body: B,
}

/// Ack id of the event; none if the client asked for no acknowledgement.
#[derive(Clone, Copy)]
pub(super) struct AckTarget(Option<u64>);

impl AckTarget {
    /// Acknowledges success.
    pub(super) fn send_ok(self, socket: &GatewaySocket, reply: &impl Serialize) {
        if let Some(id) = self.0 {
            socket.ack(id, &encode_ok_ack(reply));
        }
    }

    /// Acknowledges an error.
    pub(super) fn send_error(self, socket: &GatewaySocket, error: ApiError) {
        if let Some(id) = self.0 {
            socket.ack(id, &encode_error_ack(error));
        }
    }

    /// Sends an acknowledgement that is already encoded.
    pub(super) fn send_encoded(self, socket: &GatewaySocket, encoded: &[u8]) {
        if let Some(id) = self.0 {
            socket.ack(id, encoded);
        }
    }
}

impl EventCall<'_> {
    pub(super) fn ack_target(&self) -> AckTarget {
        AckTarget(self.event.ack_id)
    }

    /// Decodes the body, authorizes the caller, runs `work` and acknowledges its result. A body that cannot be decoded
    /// is rejected at once. Optionally counts one request of the user.
    pub(super) fn run_and_ack<B, R, F>(
        &self,
        is_rate_limited: bool,
        work: impl FnOnce(AuthorizedEvent<B>) -> F + Send + 'static,
    ) -> Option<HandlerFuture>
    where
        B: DeserializeOwned + Send + 'static,
        R: Serialize + Send,
        F: Future<Output = Result<R, ApiError>> + Send,
    {
        let ack = self.ack_target();
        self.run_without_ack(
            is_rate_limited,
            move |event: AuthorizedEvent<B>| async move {
                let socket = Arc::clone(&event.socket);
                ack.send_ok(&socket, &work(event).await?);
                Ok(())
            },
        )
    }

    /// Like [`Self::run_and_ack`], but `work` acknowledges its success.
    pub(super) fn run_without_ack<B, F>(
        &self,
        is_rate_limited: bool,
        work: impl FnOnce(AuthorizedEvent<B>) -> F + Send + 'static,
    ) -> Option<HandlerFuture>
    where
        B: DeserializeOwned + Send + 'static,
        F: Future<Output = Result<(), ApiError>> + Send,
    {
        let ack = self.ack_target();
        let body = match self.parse_body() {
            Ok(body) => body,
            Err(error) => {
                ack.send_error(self.socket, error);
                return None;
            }
        };
        let (gateway, socket) = (Arc::clone(self.gateway), Arc::clone(self.socket));
        Some(Box::pin(async move {
            let result = async {
                // Boxed: this future is large and mostly completes at once, while `work` can wait for long.
                let caller = Box::pin(gateway.recheck_caller(&socket, is_rate_limited)).await?;
                let event = AuthorizedEvent {
                    gateway: Arc::clone(&gateway),
                    socket: Arc::clone(&socket),
                    caller,
                    body,
                };
                work(event).await
            };
            if let Err(error) = result.await {
                ack.send_error(&socket, error);
            }
        }))
    }

    fn parse_body<B: DeserializeOwned>(&self) -> Result<B, ApiError> {
        if !self.event.attachments.is_empty() {
            return Err(ApiError::invalid_request(
                "binary attachments are not supported; send one JSON object",
            ));
        }
        parse_json(self.event.first_arg.unwrap_or("{}"))
    }
}

/// Runs an operation and counts it as one request of the user.
pub(super) fn run_rate_limited<O, R>(call: &EventCall<'_>) -> Option<HandlerFuture>
where
    O: Operation + DeserializeOwned + 'static,
    R: From<O::Reply> + Serialize + Send + 'static,
{
    call.run_and_ack(true, run_operation::<O, R>)
}

/// Runs an operation that has its own rate limit.
pub(super) fn run_unlimited<O, R>(call: &EventCall<'_>) -> Option<HandlerFuture>
where
    O: Operation + DeserializeOwned + 'static,
    R: From<O::Reply> + Serialize + Send + 'static,
{
    call.run_and_ack(false, run_operation::<O, R>)
}

fn run_operation<O, R>(event: AuthorizedEvent<O>) -> impl Future<Output = Result<R, ApiError>>
where
    O: Operation,
    R: From<O::Reply>,
{
    // Destructured outside of the future, so that the future does not contain the body twice.
    let AuthorizedEvent {
        gateway,
        caller,
        body,
        ..
    } = event;
    async move { Ok(gateway.app.run_operation(&caller, body).await?.into()) }
}

/// Parses a JSON body; an error names the path of the field.
pub(super) fn parse_json<B: DeserializeOwned>(text: &str) -> Result<B, ApiError> {
    if let Ok(body) = serde_json::from_str(text) {
        return Ok(body);
    }
    if !text.trim_start().starts_with('{') {
        return Err(ApiError::invalid_request(
            "the body must be a JSON object like {}",
        ));
    }
    // Tracking the path is slow, so only a body that failed is parsed with it.
    let json = &mut serde_json::Deserializer::from_str(text);
    Ok(serde_path_to_error::deserialize(json)?)
}

/// Encodes the acknowledgement of success.
pub(super) fn encode_ok_ack(reply: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(ACK_CAPACITY);
    json.extend_from_slice(br#"{"ok":true"#);
    let at = json.len();
    serde_json::to_writer(&mut json, reply).expect("replies contain only types that JSON supports");
    // The fields of the reply follow `ok` in the same object.
    match json.len() - at {
        2 => drop(json.remove(at)),
        _ => json[at] = b',',
    }
    json
}

fn encode_error_ack(error: ApiError) -> Vec<u8> {
    let error = error.into();
    super::encode_json(&ErrorAck { ok: false, error })
}

impl From<ApiError> for ErrorBody {
    fn from(error: ApiError) -> Self {
        Self {
            code: error.code.name(),
            message: error.detail,
            retry_after_ms: error.retry_after_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use parlor_chat::api::error_code::ErrorCode;
    use parlor_chat::messages::SendMessage;
    use serde_json::{Value, json};

    use super::super::bodies::{ConversationRef, EmptyObject};
    use super::*;

    #[test]
    fn an_acknowledgement_has_ok_and_the_fields_of_the_reply() {
        assert_eq!(encode_ok_ack(&EmptyObject {}), br#"{"ok":true}"#);
        let conversation_id = "c1".to_owned();
        let text = encode_ok_ack(&ConversationRef { conversation_id });
        assert_eq!(text, br#"{"ok":true,"conversationId":"c1"}"#);
    }

    #[test]
    fn an_error_ack_has_a_code_and_an_optional_retry_delay() {
        let text = encode_error_ack(ApiError {
            retry_after_ms: Some(20),
            ..ApiError::new(ErrorCode::RateLimited, "too often")
        });
        let ack: Value = serde_json::from_slice(&text).unwrap();
        let error = json!({ "code": "rate_limited", "message": "too often", "retryAfterMs": 20 });
        assert_eq!(ack, json!({ "ok": false, "error": error }));
    }

    #[test]
    fn a_body_error_names_the_field_path() {
        for (text, detail) in [
            ("[]", "the body must be a JSON object like {}"),
            ("\"x\"", "the body must be a JSON object like {}"),
            ("{}", "missing field `conversationId` at line 1 column 2"),
            (
                r#"{"conversationId":7}"#,
                "`conversationId`: invalid type: integer `7`, expected a string at line 1 column 19",
            ),
        ] {
            let error = parse_json::<SendMessage>(text).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidRequest);
            assert_eq!(error.detail, detail, "{text}");
        }
    }
}
