//! Types for TypeScript: what clients and server say to each other.

use std::fmt::Write as _;

use parlor_chat::code::Code;
use serde_json::Value;

use super::{about, referred, requires, schemas};
use crate::gateway::table::{EVENTS, NEWS};

const HEAD: &str = "\
// Written from the tables of the gateway; `make docs` rewrites it.
";

const ASKED: &str = "
/** What a client says: the body of each event, and what its acknowledgement holds beside `ok: true`. */
export interface ClientEvents {
";

const TOLD: &str = "
/** What the server says: the body of each event. */
export interface ServerEvents {
";

const CODES: &str = "
/** Why something was refused; docs/errors.md explains them. */
export type Code =
";

const TEMPORARY: &str = "
/** Codes of what may succeed later. */
export const temporary: ReadonlySet<Code> = new Set<Code>([
";

/// The text of web/client/src/events.ts.
pub fn text() -> String {
    let mut text = String::from(HEAD);
    for (name, schema) in &schemas() {
        text += &declared(name, schema);
    }
    text += ASKED;
    for event in EVENTS {
        let (body, reply) = ((event.body)().name, (event.reply)().name);
        text += &format!("  /** {}. */\n", event.summary);
        text += &format!(
            "  {}: {{ body: {body}; reply: {reply} }};\n",
            key(event.name)
        );
    }
    text += "}\n";
    text += TOLD;
    for event in NEWS {
        text += &format!("  /** {}. */\n", event.summary);
        text += &format!("  {}: {};\n", key(event.name), (event.body)().name);
    }
    text += "}\n";
    text + &codes()
}

fn codes() -> String {
    let listed = Code::ALL.iter().map(|code| format!("\n  | \"{code}\""));
    let temporary = Code::ALL.iter().filter(|code| code.is_temporary());
    let temporary = temporary.map(|code| format!("  \"{code}\",\n"));
    format!(
        "{}{};\n{TEMPORARY}{}]);\n",
        CODES.trim_end(),
        listed.collect::<String>(),
        temporary.collect::<String>()
    )
}

/// A type with its name.
fn declared(name: &str, schema: &Value) -> String {
    let words = about(schema).map_or(String::new(), |words| format!("/** {words} */\n"));
    match schema["properties"].as_object() {
        Some(fields) => {
            let fields = fields.iter().map(|(name, field)| {
                let words =
                    about(field).map_or(String::new(), |words| format!("  /** {words} */\n"));
                format!("{words}  {};\n", property(schema, name, field))
            });
            let fields = fields.collect::<String>();
            format!("\n{words}export interface {name} {{\n{fields}}}\n")
        }
        None => format!("\n{words}export type {name} = {};\n", of(schema)),
    }
}

fn property(object: &Value, name: &str, schema: &Value) -> String {
    let mark = if requires(object, name) { "" } else { "?" };
    format!("{}{mark}: {}", key(name), of(schema))
}

/// The type of a value.
pub(super) fn of(schema: &Value) -> String {
    if let Some(name) = referred(schema) {
        return name.into();
    }
    if let Some(values) = schema["enum"].as_array() {
        return joined(values.iter().map(Value::to_string), " | ");
    }
    for (keyword, between) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[keyword].as_array() {
            return joined(parts.iter().map(of), between);
        }
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            joined(kinds.map(|kind| plain(kind, schema)), " | ")
        }
        kind => plain(kind.as_str().unwrap_or_default(), schema),
    }
}

fn plain(kind: &str, schema: &Value) -> String {
    match kind {
        "string" | "boolean" | "null" => kind.into(),
        "integer" | "number" => "number".into(),
        "array" => {
            let item = of(&schema["items"]);
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
        return format!("{{ {} }}", joined(fields, "; "));
    }
    match &schema["additionalProperties"] {
        values @ Value::Object(_) => format!("Record<string, {}>", of(values)),
        _ => "Record<string, unknown>".into(),
    }
}

fn joined(parts: impl Iterator<Item = String>, between: &str) -> String {
    let mut text = String::new();
    for part in parts {
        let before = if text.is_empty() { "" } else { between };
        let _ = write!(text, "{before}{part}");
    }
    text
}

/// A name where a field is declared.
fn key(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.chars().all(is_plain) {
        name.into()
    } else {
        format!("\"{name}\"")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
            assert_eq!(of(&schema), expected, "{schema}");
        }
    }
}
