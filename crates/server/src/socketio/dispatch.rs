//! One event of a client: decode the body, authorize the caller, run, acknowledge.
//!
//! Invariants:
//! 1. An event with an ack id is acknowledged with `{ok: true, …}` or `{ok: false, error}`. The error of an event
//!    without an ack id is not reported.
//! 2. Nothing runs before the caller's session was checked.

use std::sync::Arc;

use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::Code;
use parlor_chat::api::operation::Operation;
use parlor_socketio::{HandlerFuture, IncomingEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bodies::{Failure, Refused};
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
    pub(super) fn send_error(self, socket: &GatewaySocket, refusal: ApiError) {
        if let Some(id) = self.0 {
            socket.ack(id, &encode_error_ack(refusal));
        }
    }

    /// Sends an acknowledgement that is already encoded.
    pub(super) fn send_encoded(self, socket: &GatewaySocket, acknowledged: &[u8]) {
        if let Some(id) = self.0 {
            socket.ack(id, acknowledged);
        }
    }

    pub(super) fn send_result(
        self,
        socket: &GatewaySocket,
        answer: Result<impl Serialize, ApiError>,
    ) {
        match answer {
            Ok(reply) => self.send_ok(socket, &reply),
            Err(refusal) => self.send_error(socket, refusal),
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
        counted: bool,
        work: impl FnOnce(AuthorizedEvent<B>) -> F + Send + 'static,
    ) -> Option<HandlerFuture>
    where
        B: DeserializeOwned + Send + 'static,
        R: Serialize + Send,
        F: Future<Output = Result<R, ApiError>> + Send,
    {
        let answer = self.ack_target();
        self.run_without_ack(counted, move |asked: AuthorizedEvent<B>| async move {
            let socket = Arc::clone(&asked.socket);
            answer.send_result(&socket, work(asked).await);
            Ok(())
        })
    }

    /// Like [`Self::run_and_ack`], but `work` acknowledges its success.
    pub(super) fn run_without_ack<B, F>(
        &self,
        counted: bool,
        work: impl FnOnce(AuthorizedEvent<B>) -> F + Send + 'static,
    ) -> Option<HandlerFuture>
    where
        B: DeserializeOwned + Send + 'static,
        F: Future<Output = Result<(), ApiError>> + Send,
    {
        let answer = self.ack_target();
        let body = match self.parse_body() {
            Ok(body) => body,
            Err(refusal) => {
                answer.send_error(self.socket, refusal);
                return None;
            }
        };
        let (gateway, socket) = (Arc::clone(self.gateway), Arc::clone(self.socket));
        Some(Box::pin(async move {
            let done = async {
                // Boxed: this future is large and mostly completes at once, while `work` can wait for long.
                let caller = Box::pin(gateway.recheck_caller(&socket, counted)).await?;
                let asked = AuthorizedEvent {
                    gateway: Arc::clone(&gateway),
                    socket: Arc::clone(&socket),
                    caller,
                    body,
                };
                work(asked).await
            };
            if let Err(refusal) = done.await {
                answer.send_error(&socket, refusal);
            }
        }))
    }

    fn parse_body<B: DeserializeOwned>(&self) -> Result<B, ApiError> {
        if !self.event.attachments.is_empty() {
            return Err(invalid_request(
                "binary attachments are not supported; send one JSON object",
            ));
        }
        parse_json(self.event.first_arg.unwrap_or("{}"))
    }
}

/// Runs an operation and counts it as one request of the user.
pub(super) fn counted<O, R>(call: &EventCall<'_>) -> Option<HandlerFuture>
where
    O: Operation + DeserializeOwned + 'static,
    R: From<O::Reply> + Serialize + Send + 'static,
{
    call.run_and_ack(true, run::<O, R>)
}

/// Runs an operation that has its own rate limit.
pub(super) fn run_unlimited<O, R>(call: &EventCall<'_>) -> Option<HandlerFuture>
where
    O: Operation + DeserializeOwned + 'static,
    R: From<O::Reply> + Serialize + Send + 'static,
{
    call.run_and_ack(false, run::<O, R>)
}

fn run<O, R>(asked: AuthorizedEvent<O>) -> impl Future<Output = Result<R, ApiError>>
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
    } = asked;
    async move { Ok(gateway.app.run_operation(&caller, body).await?.into()) }
}

/// Parses a JSON body; an error names the path of the field.
pub(super) fn parse_json<B: DeserializeOwned>(text: &str) -> Result<B, ApiError> {
    if let Ok(body) = serde_json::from_str(text) {
        return Ok(body);
    }
    if !text.trim_start().starts_with('{') {
        return Err(invalid_request("the body must be a JSON object like {}"));
    }
    // Tracking the path is slow, so only a body that failed is parsed with it.
    let json = &mut serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => invalid_request(error.inner().to_string()),
            _ => invalid_request(format!("`{path}`: {}", error.inner())),
        }
    })
}

pub(super) fn invalid_request(text: impl Into<String>) -> ApiError {
    ApiError::new(Code::InvalidRequest, text)
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

fn encode_error_ack(refusal: ApiError) -> Vec<u8> {
    let refused = Refused {
        ok: false,
        error: refusal.into(),
    };
    super::encode_json(&refused)
}

impl From<ApiError> for Failure {
    fn from(refusal: ApiError) -> Self {
        Self {
            code: refusal.code.name(),
            message: refusal.detail,
            retry_after_ms: refusal.retry_after_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use parlor_chat::messages::SendMessage;
    use serde_json::{Value, json};

    use super::super::bodies::{Conversation, Nothing};
    use super::*;

    #[test]
    fn an_acknowledgement_has_ok_and_the_fields_of_the_reply() {
        assert_eq!(encode_ok_ack(&Nothing {}), br#"{"ok":true}"#);
        let conversation_id = "c1".to_owned();
        let text = encode_ok_ack(&Conversation { conversation_id });
        assert_eq!(text, br#"{"ok":true,"conversationId":"c1"}"#);
    }

    #[test]
    fn an_error_ack_has_a_code_and_an_optional_retry_delay() {
        let text = encode_error_ack(ApiError {
            retry_after_ms: Some(20),
            ..ApiError::new(Code::RateLimited, "too often")
        });
        let told: Value = serde_json::from_slice(&text).unwrap();
        let error = json!({ "code": "rate_limited", "message": "too often", "retryAfterMs": 20 });
        assert_eq!(told, json!({ "ok": false, "error": error }));
    }

    #[test]
    fn a_body_error_names_the_field_path() {
        for (text, told) in [
            ("[]", "the body must be a JSON object like {}"),
            ("\"x\"", "the body must be a JSON object like {}"),
            ("{}", "missing field `conversationId` at line 1 column 2"),
            (
                r#"{"conversationId":7}"#,
                "`conversationId`: invalid type: integer `7`, expected a string at line 1 column 19",
            ),
        ] {
            let refusal = parse_json::<SendMessage>(text).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidRequest);
            assert_eq!(refusal.detail, told, "{text}");
        }
    }
}
