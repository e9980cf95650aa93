//! Generates docs/events.md.

use parlor_chat::api::error_code::Code;
use parlor_chat::api::operation::COMMON_ERROR_CODES;
use serde_json::Value;

use super::typescript::type_of;
use super::{description, is_required, schemas};
use crate::socketio::event_table::{CLIENT_EVENTS, SERVER_EVENTS, handshake_schema};

const HEAD: &str = "\
# Events

<!-- Generated from the event tables; `make docs` rewrites it. -->

All Socket.IO events of clients and of the server. Start with the guide to [connecting clients](guide/connecting.md).
The same reference exists as [asyncapi.json](asyncapi.json) for programs and as
[events.ts](../web/client/src/events.ts) for TypeScript. [errors.md](errors.md) explains the error codes.

Types are written as in TypeScript; `?` marks an optional field.
";

const ASKED: &str = "
## Client events

Each event takes one JSON object and is acknowledged with `{ok: true, …}` or
`{ok: false, error: {code, message, retryAfterMs?}}`.

| event | body | acknowledgement | error codes |
|---|---|---|---|
";

const TOLD: &str = "
## Server events

| event | body |
|---|---|
";

/// Text of docs/events.md.
pub fn text() -> String {
    let schemas = schemas();
    let mut text = String::from(HEAD);
    text += "\n## The handshake\n\nA client sends these fields as `auth` when it connects.\n";
    text += &fields(&schemas[&*handshake_schema().name]);
    text += ASKED;
    for event in CLIENT_EVENTS {
        let (body, reply) = ((event.body)().name, (event.reply_schema)().name);
        text += &format!(
            "| `{}`<br>{} | {} | {} | {} |\n",
            event.name,
            event.summary,
            link(&body),
            link(&reply),
            codes(event.error_codes)
        );
    }
    text += &format!(
        "\nError codes of any event: {}.\n",
        codes(COMMON_ERROR_CODES)
    );
    text += TOLD;
    for event in SERVER_EVENTS {
        let body = (event.body)().name;
        text += &format!(
            "| `{}`<br>{} | {} |\n",
            event.name,
            event.summary,
            link(&body)
        );
    }
    text += "\n## Types\n";
    for (name, schema) in schemas.iter().filter(|(name, _)| *name != "Nothing") {
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
        "Nothing" => "–".into(),
        name => format!("[{name}](#{})", name.to_lowercase()),
    }
}

fn codes(codes: &[Code]) -> String {
    let listed = codes.iter().map(|code| format!("`{code}`"));
    let listed = listed.collect::<Vec<_>>().join(", ");
    if listed.is_empty() {
        "–".into()
    } else {
        listed
    }
}
