//! docs/events.md: the events for people.

use parlor_chat::code::Code;
use parlor_chat::operation::EVERYWHERE;
use serde_json::Value;

use super::typescript::of;
use super::{about, requires, schemas};
use crate::gateway::table::{EVENTS, NEWS, handshake};

const HEAD: &str = "\
# Events

<!-- Written from the tables of the gateway; `make docs` rewrites it. -->

What clients and server say to each other by Socket.IO. The guide to [connecting clients](guide/connecting.md) leads through
it; the same as a document for programs is [asyncapi.json](asyncapi.json), and as types for TypeScript
[events.ts](../web/client/src/events.ts). The codes are explained in [errors.md](errors.md).

A type is written as in TypeScript; `?` marks what may be absent.
";

const ASKED: &str = "
## What clients say

Each takes one JSON object and is acknowledged by `{ok: true, …}` or `{ok: false, error: {code, message, retryAfterMs?}}`.

| event | body | acknowledged with | refused with |
|---|---|---|---|
";

const TOLD: &str = "
## What the server says

| event | body |
|---|---|
";

/// The text of docs/events.md.
pub fn text() -> String {
    let schemas = schemas();
    let mut text = String::from(HEAD);
    text += "\n## The handshake\n\nWhat a client shows as `auth` when it connects.\n";
    text += &fields(&schemas[&*handshake().name]);
    text += ASKED;
    for event in EVENTS {
        let (body, reply) = ((event.body)().name, (event.reply)().name);
        text += &format!(
            "| `{}`<br>{} | {} | {} | {} |\n",
            event.name,
            event.summary,
            link(&body),
            link(&reply),
            codes(event.codes)
        );
    }
    text += &format!(
        "\nAny event may also be refused with {}.\n",
        codes(EVERYWHERE)
    );
    text += TOLD;
    for event in NEWS {
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
        text += &format!("\n### {name}\n\n{}\n", about(schema).unwrap_or_default());
        text += &fields(schema);
    }
    text
}

/// The fields of an object in a table; of anything else, what it is.
fn fields(schema: &Value) -> String {
    let Some(fields) = schema["properties"].as_object() else {
        return format!("\n`{}`\n", of(schema));
    };
    let rows = fields.iter().map(|(name, field)| {
        let mark = if requires(schema, name) { "" } else { "?" };
        let kind = of(field).replace('|', "\\|");
        format!(
            "| `{name}{mark}` | `{kind}` | {} |\n",
            about(field).unwrap_or_default()
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
