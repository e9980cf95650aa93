//! One event of a client: decode, let in, do, acknowledge.
//!
//! Always true:
//! 1. Every event is answered if the client asked for it: `{ok: true, …}` or `{ok: false, error}`. Without an
//!    acknowledgement asked for, nothing tells of a refusal.
//! 2. Nothing is done before the session was asked for.

use std::sync::Arc;

use parlor_chat::access::Caller;
use parlor_chat::code::Code;
use parlor_chat::operation::Operation;
use parlor_socketio::{Event, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::words::{Failure, Refused};
use super::{Gateway, Socket};
use crate::wire::Refusal;

/// Bytes of an acknowledgement that most have room in.
const USUAL: usize = 512;

/// How an event is taken in: at once, or by work.
pub(super) type Take = fn(&Call<'_>) -> Option<Work>;

/// An event that came.
pub(super) struct Call<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) socket: &'a Arc<Socket>,
    pub(super) event: &'a Event<'a>,
}

/// What is needed to do what an event asks for.
pub(super) struct Asked<B> {
    pub(super) gateway: Arc<Gateway>,
    pub(super) socket: Arc<Socket>,
    pub(super) caller: Caller,
    pub(super) body: B,
}

/// Where the answer goes.
#[derive(Clone, Copy)]
pub(super) struct Answer(Option<u64>);

impl Answer {
    /// Tells that it was done.
    pub(super) fn done(self, socket: &Socket, reply: &impl Serialize) {
        if let Some(id) = self.0 {
            socket.ack(id, &done(reply));
        }
    }

    /// Tells why it was not.
    pub(super) fn refused(self, socket: &Socket, refusal: Refusal) {
        if let Some(id) = self.0 {
            socket.ack(id, &refused(refusal));
        }
    }

    /// The same with an acknowledgement that is written already.
    pub(super) fn bytes(self, socket: &Socket, acknowledged: &[u8]) {
        if let Some(id) = self.0 {
            socket.ack(id, acknowledged);
        }
    }

    pub(super) fn give(self, socket: &Socket, answer: Result<impl Serialize, Refusal>) {
        match answer {
            Ok(reply) => self.done(socket, &reply),
            Err(refusal) => self.refused(socket, refusal),
        }
    }
}

impl Call<'_> {
    pub(super) fn answer(&self) -> Answer {
        Answer(self.event.ack())
    }

    /// Lets the caller in and does the work; an event that cannot be read is answered at once. `counted` takes one place
    /// of the user's budget.
    pub(super) fn work<B, R, F>(
        &self,
        counted: bool,
        work: impl FnOnce(Asked<B>) -> F + Send + 'static,
    ) -> Option<Work>
    where
        B: DeserializeOwned + Send + 'static,
        R: Serialize + Send,
        F: Future<Output = Result<R, Refusal>> + Send,
    {
        let answer = self.answer();
        self.answered_by(counted, move |asked: Asked<B>| async move {
            let socket = Arc::clone(&asked.socket);
            answer.give(&socket, work(asked).await);
            Ok(())
        })
    }

    /// The same for work that answers itself if it succeeds.
    pub(super) fn answered_by<B, F>(
        &self,
        counted: bool,
        work: impl FnOnce(Asked<B>) -> F + Send + 'static,
    ) -> Option<Work>
    where
        B: DeserializeOwned + Send + 'static,
        F: Future<Output = Result<(), Refusal>> + Send,
    {
        let answer = self.answer();
        let body = match self.body() {
            Ok(body) => body,
            Err(refusal) => {
                answer.refused(self.socket, refusal);
                return None;
            }
        };
        let (gateway, socket) = (Arc::clone(self.gateway), Arc::clone(self.socket));
        Some(Box::pin(async move {
            let done = async {
                // Boxed, since it is mostly over at once and much larger than what then waits.
                let caller = Box::pin(gateway.admit(&socket, counted)).await?;
                let asked = Asked {
                    gateway: Arc::clone(&gateway),
                    socket: Arc::clone(&socket),
                    caller,
                    body,
                };
                work(asked).await
            };
            if let Err(refusal) = done.await {
                answer.refused(&socket, refusal);
            }
        }))
    }

    fn body<B: DeserializeOwned>(&self) -> Result<B, Refusal> {
        if !self.event.attachments().is_empty() {
            return Err(invalid("binary data is not taken, only JSON"));
        }
        read(self.event.arg(0).unwrap_or("{}"))
    }
}

/// An event that runs an operation, with a place of the user's budget.
pub(super) fn counted<O, R>(call: &Call<'_>) -> Option<Work>
where
    O: Operation + DeserializeOwned + 'static,
    R: From<O::Reply> + Serialize + Send + 'static,
{
    call.work(true, run::<O, R>)
}

/// An event that runs an operation with a limit of its own.
pub(super) fn uncounted<O, R>(call: &Call<'_>) -> Option<Work>
where
    O: Operation + DeserializeOwned + 'static,
    R: From<O::Reply> + Serialize + Send + 'static,
{
    call.work(false, run::<O, R>)
}

fn run<O, R>(asked: Asked<O>) -> impl Future<Output = Result<R, Refusal>>
where
    O: Operation,
    R: From<O::Reply>,
{
    // Taken apart before, so that it is not kept twice while it is run.
    let Asked {
        gateway,
        caller,
        body,
        ..
    } = asked;
    async move { Ok(gateway.app.run(&caller, body).await?.into()) }
}

/// What a text of JSON says; what is wrong with it is told with the place.
pub(super) fn read<B: DeserializeOwned>(text: &str) -> Result<B, Refusal> {
    if let Ok(body) = serde_json::from_str(text) {
        return Ok(body);
    }
    if !text.trim_start().starts_with('{') {
        return Err(invalid("the body must be a JSON object like {}"));
    }
    // The path costs, so it is sought only where it is told.
    let json = &mut serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => invalid(error.inner().to_string()),
            _ => invalid(format!("`{path}`: {}", error.inner())),
        }
    })
}

pub(super) fn invalid(text: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidRequest, text)
}

/// The acknowledgement of what was done.
pub(super) fn done(reply: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(USUAL);
    json.extend_from_slice(br#"{"ok":true"#);
    let at = json.len();
    serde_json::to_writer(&mut json, reply).expect("texts, numbers and lists are JSON");
    // The fields of the reply follow the first one.
    match json.len() - at {
        2 => drop(json.remove(at)),
        _ => json[at] = b',',
    }
    json
}

fn refused(refusal: Refusal) -> Vec<u8> {
    let refused = Refused {
        ok: false,
        error: refusal.into(),
    };
    super::encode(&refused)
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
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

    use super::super::words::{Conversation, Nothing};
    use super::*;

    #[test]
    fn an_acknowledgement_has_ok_and_the_fields_of_the_reply() {
        assert_eq!(done(&Nothing {}), br#"{"ok":true}"#);
        let conversation_id = "c1".to_owned();
        let text = done(&Conversation { conversation_id });
        assert_eq!(text, br#"{"ok":true,"conversationId":"c1"}"#);
    }

    #[test]
    fn a_refusal_has_a_code_and_where_it_is_known_a_time() {
        let text = refused(Refusal {
            retry_after_ms: Some(20),
            ..Refusal::new(Code::RateLimited, "too often")
        });
        let told: Value = serde_json::from_slice(&text).unwrap();
        let error = json!({ "code": "rate_limited", "message": "too often", "retryAfterMs": 20 });
        assert_eq!(told, json!({ "ok": false, "error": error }));
    }

    #[test]
    fn what_is_wrong_with_a_body_is_told_with_its_place() {
        for (text, told) in [
            ("[]", "the body must be a JSON object like {}"),
            ("\"x\"", "the body must be a JSON object like {}"),
            ("{}", "missing field `conversationId` at line 1 column 2"),
            (
                r#"{"conversationId":7}"#,
                "`conversationId`: invalid type: integer `7`, expected a string at line 1 column 19",
            ),
        ] {
            let refusal = read::<SendMessage>(text).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidRequest);
            assert_eq!(refusal.detail, told, "{text}");
        }
    }
}
