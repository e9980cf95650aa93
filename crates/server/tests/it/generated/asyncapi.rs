//! AsyncAPI document (3.0): every event with its body, its acknowledgement and an example.
//!
//! Invariants:
//! 1. The document describes the server: it receives client events and replies with an acknowledgement, and it sends
//!    server events.

use parlor_chat::api::operation::COMMON_ERROR_CODES;
use serde_json::{Map, Value, json};

use parlor_server::socketio::event_table::{
    CLIENT_EVENTS, ClientEvent, connect_error_schema, error_ack_schema, handshake_schema,
};
use parlor_server::socketio::server_events::SERVER_EVENTS;

use super::event_schemas::{SCHEMA_REF_PREFIX, schemas};
use super::{camel_case, code_list, examples};

const INTRO: &str = include_str!("asyncapi_intro.md");
/// The only channel: the namespace of Socket.IO.
const CHANNEL_NAME: &str = "chat";
/// Id of the acknowledgement of a rejected event.
const ERROR_ACK_ID: &str = "errorAck";

/// Text of docs/asyncapi.json.
pub fn text() -> String {
    format!("{:#}\n", document())
}

fn document() -> Value {
    let schemas = Value::Object(schemas().into_iter().collect());
    let messages = messages(&schemas);
    let listed = messages.keys().map(|id| {
        let to = format!("#/components/messages/{id}");
        (id.clone(), reference(&to))
    });
    let listed = listed.collect::<Map<_, _>>();
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Parlor",
            "version": env!("CARGO_PKG_VERSION"),
            "description": INTRO.trim_end(),
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "127.0.0.1:7070",
                "pathname": "/socket.io/",
                "protocol": "socket.io",
                "protocolVersion": "5",
                "description": "Socket.IO, by WebSocket or HTTP long-polling",
            },
        },
        "channels": {
            CHANNEL_NAME: {
                "address": "/",
                "title": "The namespace `/`",
                "description": "All events of a connection.",
                "messages": listed,
            },
        },
        "operations": operations(),
        "components": { "messages": messages, "schemas": schemas },
    })
}

/// Messages by id.
fn messages(schemas: &Value) -> Map<String, Value> {
    let mut all = Map::new();
    let handshake = handshake_schema();
    let (connect, refusal) = (handshake.name, connect_error_schema().name);
    let auth = "The handshake of a client, sent as `auth`";
    all.insert(
        "connect".into(),
        message("connect", auth, &connect, schemas),
    );
    let about = "The error of a rejected handshake";
    all.insert(
        "connectError".into(),
        message("connect_error", about, &refusal, schemas),
    );
    let about = "The acknowledgement of a rejected event";
    all.insert(
        ERROR_ACK_ID.into(),
        message("acknowledgement", about, &error_ack_schema().name, schemas),
    );
    for event in CLIENT_EVENTS {
        let (body, reply) = ((event.body_schema)().name, (event.reply_schema)().name);
        let client_message = message(event.name, event.summary, &body, schemas);
        all.insert(camel_case(event.name), client_message);
        all.insert(
            ack_id(event.name),
            acknowledgement(event.name, &reply, schemas),
        );
    }
    for event in SERVER_EVENTS {
        let body = (event.body_schema)().name;
        let server_message = message(event.name, event.summary, &body, schemas);
        all.insert(server_event_id(event.name), server_message);
    }
    all
}

fn message(name: &str, summary: &str, body: &str, schemas: &Value) -> Value {
    let payload = schema(body);
    json!({
        "name": name,
        "title": name,
        "summary": summary,
        "examples": [{ "payload": examples::of(schemas, &payload) }],
        "payload": payload,
    })
}

fn acknowledgement(event: &str, reply: &str, schemas: &Value) -> Value {
    let done = json!({
        "type": "object",
        "required": ["ok"],
        "properties": { "ok": { "type": "boolean", "const": true, "examples": [true] } },
    });
    let payload = json!({ "allOf": [done, schema(reply)] });
    json!({
        "name": "acknowledgement",
        "title": format!("{event}: acknowledgement"),
        "summary": format!("The acknowledgement of `{event}`"),
        "examples": [{ "payload": examples::of(schemas, &payload) }],
        "payload": payload,
    })
}

fn operations() -> Map<String, Value> {
    let channel = reference(&format!("#/channels/{CHANNEL_NAME}"));
    let client_operations = CLIENT_EVENTS.iter().map(|event| {
        let (done, id) = (ack_id(event.name), camel_case(event.name));
        let operation = json!({
            "action": "receive",
            "channel": channel,
            "summary": event.summary,
            "description": error_code_text(event),
            "messages": [channel_message_ref(&id)],
            "reply": { "channel": channel, "messages": [channel_message_ref(&done), channel_message_ref(ERROR_ACK_ID)] },
        });
        (id, operation)
    });
    let server_operations = SERVER_EVENTS.iter().map(|event| {
        let id = server_event_id(event.name);
        let operation = json!({
            "action": "send",
            "channel": channel,
            "summary": event.summary,
            "messages": [channel_message_ref(&id)],
        });
        (id, operation)
    });
    let connect = json!({
        "action": "receive",
        "channel": channel,
        "summary": "Connects",
        "messages": [channel_message_ref("connect")],
        "reply": { "channel": channel, "messages": [channel_message_ref("connectError")] },
    });
    let connect = ("connect".to_owned(), connect);
    [connect]
        .into_iter()
        .chain(client_operations)
        .chain(server_operations)
        .collect()
}

fn error_code_text(event: &ClientEvent) -> String {
    let own = match event.error_codes {
        [] => String::new(),
        own => format!("Error codes: {}. ", code_list(own)),
    };
    let common = code_list(COMMON_ERROR_CODES);
    format!("{own}Error codes of any event: {common}.")
}

fn schema(name: &str) -> Value {
    reference(&format!("{SCHEMA_REF_PREFIX}{name}"))
}

fn channel_message_ref(id: &str) -> Value {
    reference(&format!("#/channels/{CHANNEL_NAME}/messages/{id}"))
}

fn reference(to: &str) -> Value {
    json!({ "$ref": to })
}

/// Id of the acknowledgement of a client event.
fn ack_id(event: &str) -> String {
    camel_case(event) + "Ack"
}

/// Id of a server event. The prefix avoids a conflict with a client event of the same name.
fn server_event_id(event: &str) -> String {
    camel_case(&format!("on:{event}"))
}
