//! Generates web/client/src/events.ts: the TypeScript types of the events.

use std::fmt::Write as _;

use parlor_chat::api::error_code::ErrorCode;
use serde_json::{Value, json};

use super::event_schemas::{description, is_required, referenced_type, schemas};
use parlor_server::socketio::event_table::CLIENT_EVENTS;
use parlor_server::socketio::server_events::SERVER_EVENTS;

const HEADER: &str = "\
// Generated from the event tables; `make docs` rewrites it.
";

const CLIENT_EVENTS_HEADER: &str = "
/** Client events: body, and fields of the acknowledgement besides `ok: true`. */
export interface ClientEvents {
";

const SERVER_EVENTS_HEADER: &str = "
/** Server events: body. */
export interface ServerEvents {
";

const ERROR_CODES_HEADER: &str = "
/** Stable error codes; docs/errors.md explains them. */
export type ErrorCode =
";

const RETRYABLE_HEADER: &str = "
/** Error codes after which the same request can succeed later. */
export const retryableCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
";

/// Text of web/client/src/events.ts.
pub(super) fn text() -> String {
    let mut text = String::from(HEADER);
    for (name, schema) in &schemas() {
        text += &declaration(name, schema);
    }
    text += CLIENT_EVENTS_HEADER;
    for event in CLIENT_EVENTS {
        let (body, reply) = ((event.body_schema)().name, (event.reply_schema)().name);
        text += &format!("  /** {}. */\n", event.summary);
        text += &format!(
            "  {}: {{ body: {body}; reply: {reply} }};\n",
            property_name(event.name)
        );
    }
    text += "}\n";
    text += SERVER_EVENTS_HEADER;
    for event in SERVER_EVENTS {
        text += &format!("  /** {}. */\n", event.summary);
        text += &format!(
            "  {}: {};\n",
            property_name(event.name),
            (event.body_schema)().name
        );
    }
    text += "}\n";
    text + &codes()
}

fn codes() -> String {
    let listed = ErrorCode::ALL
        .iter()
        .map(|code| format!("\n  | \"{code}\""));
    let retryable = ErrorCode::ALL.iter().filter(|code| code.is_retryable());
    let retryable = retryable.map(|code| format!("  \"{code}\",\n"));
    format!(
        "{}{};\n{RETRYABLE_HEADER}{}]);\n",
        ERROR_CODES_HEADER.trim_end(),
        listed.collect::<String>(),
        retryable.collect::<String>()
    )
}

/// Declaration of a type.
fn declaration(name: &str, schema: &Value) -> String {
    let words = description(schema).map_or(String::new(), |words| format!("/** {words} */\n"));
    match schema["properties"].as_object() {
        Some(fields) => {
            let fields = fields.iter().map(|(name, field)| {
                let words =
                    description(field).map_or(String::new(), |words| format!("  /** {words} */\n"));
                format!("{words}  {};\n", property(schema, name, field))
            });
            let fields = fields.collect::<String>();
            format!("\n{words}export interface {name} {{\n{fields}}}\n")
        }
        None => format!("\n{words}export type {name} = {};\n", type_of(schema)),
    }
}

fn property(object: &Value, name: &str, schema: &Value) -> String {
    let mark = if is_required(object, name) { "" } else { "?" };
    format!("{}{mark}: {}", property_name(name), type_of(schema))
}

/// TypeScript type of a schema.
pub(super) fn type_of(schema: &Value) -> String {
    if let Some(name) = referenced_type(schema) {
        return name.into();
    }
    if let Some(values) = schema["enum"].as_array() {
        return join(values.iter().map(Value::to_string), " | ");
    }
    for (keyword, between) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[keyword].as_array() {
            return join(parts.iter().map(type_of), between);
        }
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            join(kinds.map(|kind| simple_type_of(kind, schema)), " | ")
        }
        kind => simple_type_of(kind.as_str().unwrap_or_default(), schema),
    }
}

fn simple_type_of(kind: &str, schema: &Value) -> String {
    match kind {
        "string" | "boolean" | "null" => kind.into(),
        "integer" | "number" => "number".into(),
        "array" => {
            let item = type_of(&schema["items"]);
            if item.contains(' ') {
                format!("({item})[]")
            } else {
                format!("{item}[]")
            }
        }
        "object" => object(schema),
        _ => "unknown".into(),
    }
}

fn object(schema: &Value) -> String {
    if let Some(fields) = schema["properties"].as_object() {
        let fields = fields
            .iter()
            .map(|(name, field)| property(schema, name, field));
        return format!("{{ {} }}", join(fields, "; "));
    }
    match &schema["additionalProperties"] {
        values @ Value::Object(_) => format!("Record<string, {}>", type_of(values)),
        _ => "Record<string, unknown>".into(),
    }
}

fn join(parts: impl Iterator<Item = String>, between: &str) -> String {
    let mut text = String::new();
    for part in parts {
        let before = if text.is_empty() { "" } else { between };
        let _ = write!(text, "{before}{part}");
    }
    text
}

/// Name of a property, quoted if necessary.
fn property_name(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.chars().all(is_plain) {
        name.into()
    } else {
        format!("\"{name}\"")
    }
}

#[test]
fn schemas_become_types() {
    for (schema, expected) in [
        (json!({ "type": "integer", "minimum": 0 }), "number"),
        (json!({ "type": ["string", "null"] }), "string | null"),
        (json!({ "enum": ["a", "b"] }), "\"a\" | \"b\""),
        (json!({ "$ref": "#/components/schemas/Message" }), "Message"),
        (
            json!({ "type": "array", "items": { "type": ["string", "null"] } }),
            "(string | null)[]",
        ),
        (
            json!({ "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/UserId" }] }),
            "null | UserId",
        ),
        (
            json!({ "type": "object", "additionalProperties": { "type": "boolean" } }),
            "Record<string, boolean>",
        ),
        (
            json!({ "type": "object", "required": ["seq"], "properties": {
                "seq": { "type": "integer" }, "more-of": { "type": "boolean" } } }),
            "{ seq: number; \"more-of\"?: boolean }",
        ),
        (json!({ "type": "object" }), "Record<string, unknown>"),
        (json!({}), "unknown"),
    ] {
        assert_eq!(type_of(&schema), expected, "{schema}");
    }
}
