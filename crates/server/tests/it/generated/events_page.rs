//! Generates docs/events.md.

use parlor_chat::api::operation::COMMON_ERROR_CODES;
use serde_json::Value;

use super::code_list;
use super::event_schemas::{description, is_required, schemas};
use super::typescript::type_of;
use parlor_server::socketio::event_table::{CLIENT_EVENTS, handshake_schema};
use parlor_server::socketio::server_events::SERVER_EVENTS;

const HEADER: &str = "\
# Events

<!-- Generated from the event tables; `make docs` rewrites it. -->

All Socket.IO events of clients and of the server. Start with the guide to [connecting clients](guide/connecting.md).
The same reference exists as [asyncapi.json](asyncapi.json) for programs (a server has it at `/asyncapi.json`) and as
[events.ts](../web/client/src/events.ts) for TypeScript. [errors.md](errors.md) explains the error codes.

Types are written as in TypeScript; `?` marks an optional field.
";

const CLIENT_EVENTS_HEADER: &str = "
## Client events

Each event takes one JSON object and is acknowledged with `{ok: true, …}` or
`{ok: false, error: {code, message, retryAfterMs?}}`. `heartbeat`, `typing:*` and `message:send` have their own rate
limits; every other event counts as one request of the user, like a request over HTTP. A service names the user it acts
for with `userId` of the handshake, and may join any conversation.

| event | body | acknowledgement | error codes |
|---|---|---|---|
";

const SERVER_EVENTS_HEADER: &str = "
## Server events

A message is sent to every socket that has joined its conversation, including the socket of the sender: clients
recognize duplicates by `seq`. Events that connection state recovery can replay carry their offset as a second argument.

| event | body |
|---|---|
";

/// Text of docs/events.md.
pub(super) fn text() -> String {
    let schemas = schemas();
    let mut text = String::from(HEADER);
    text += "\n## The handshake\n\nA client sends these fields as `auth` when it connects.\n";
    text += &fields(&schemas[&*handshake_schema().name]);
    text += CLIENT_EVENTS_HEADER;
    for event in CLIENT_EVENTS {
        let (body, reply) = ((event.body_schema)().name, (event.reply_schema)().name);
        text += &format!(
            "| `{}`<br>{} | {} | {} | {} |\n",
            event.name,
            event.summary,
            link(&body),
            link(&reply),
            code_list(event.error_codes)
        );
    }
    text += &format!(
        "\nError codes of any event: {}.\n",
        code_list(COMMON_ERROR_CODES)
    );
    text += SERVER_EVENTS_HEADER;
    for event in SERVER_EVENTS {
        let body = (event.body_schema)().name;
        text += &format!(
            "| `{}`<br>{} | {} |\n",
            event.name,
            event.summary,
            link(&body)
        );
    }
    text += "\n## Types\n";
    for (name, schema) in schemas.iter().filter(|(name, _)| *name != "EmptyObject") {
        text += &format!(
            "\n### {name}\n\n{}\n",
            description(schema).unwrap_or_default()
        );
        text += &fields(schema);
    }
    text
}

/// The fields of an object as a table; of any other schema its type.
fn fields(schema: &Value) -> String {
    let Some(fields) = schema["properties"].as_object() else {
        return format!("\n`{}`\n", type_of(schema));
    };
    let rows = fields.iter().map(|(name, field)| {
        let mark = if is_required(schema, name) { "" } else { "?" };
        let kind = type_of(field).replace('|', "\\|");
        format!(
            "| `{name}{mark}` | `{kind}` | {} |\n",
            description(field).unwrap_or_default()
        )
    });
    format!(
        "\n| field | type | |\n|---|---|---|\n{}",
        rows.collect::<String>()
    )
}

fn link(name: &str) -> String {
    match name {
        "EmptyObject" => "–".into(),
        name => format!("[{name}](#{})", name.to_lowercase()),
    }
}
