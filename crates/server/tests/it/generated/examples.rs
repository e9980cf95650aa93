//! Examples of the bodies in the document, generated from their schemas.
//!
//! Invariants:
//! 1. The example of a schema is used first, then the example for the name of the field, then that for its type.

use serde_json::{Map, Value, json};

/// Maximum nesting depth of a schema.
const MAX_DEPTH: usize = 12;

/// Name of a field with an example.
type Named = (&'static str, fn() -> Value);

const EXAMPLES_BY_FIELD: &[Named] = &[
    ("content", || json!("See you at noon")),
    ("title", || json!("Lunch")),
    ("username", || json!("Alice")),
    ("name", || json!("Alice")),
    ("reason", || json!("spam")),
    ("metadata", || json!({ "mentions": ["bob"] })),
    ("clientId", || json!("0f3c9a52")),
    ("idempotencyKey", || json!("0f3c9a52")),
    ("key", || json!("login:alice")),
    ("ipAddress", || json!("203.0.113.7")),
    ("device", || json!("Firefox on Linux")),
    ("token", || json!("eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl")),
    ("nextCursor", || json!("eyJhZnRlciI6ImJvYiJ9")),
    ("nextInMs", || json!(20_000)),
    ("windowMs", || json!(60_000)),
    ("resetMs", || json!(60_000)),
    ("limit", || json!(5)),
    ("remaining", || json!(4)),
    ("allowed", || json!(true)),
    ("valid", || json!(true)),
    ("typing", || json!(true)),
    ("member", || json!(true)),
];
/// Suffixes of the names of time fields.
const TIME_SUFFIXES: [&str; 5] = ["At", "Until", "lastSeen", "loginTime", "Time"];
/// Fields that are absent in the usual case, so examples omit them.
const OMITTED_FIELDS: [&str; 5] = [
    "retryAfterMs",
    "degraded",
    "deletedAt",
    "editedAt",
    "nextCursor",
];

/// Adds an example to every request body and every success response.
pub(super) fn add_examples(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let builder = ExampleBuilder(&schemas);
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    let operations = paths.flat_map(|(_, path)| path.as_object_mut().into_iter().flatten());
    for (_, operation) in operations {
        for content in [
            "/requestBody/content",
            "/responses/200/content",
            "/responses/201/content",
        ] {
            let json = operation.pointer_mut(&format!("{content}/application~1json"));
            if let Some(json) = json {
                json["example"] = builder.example_of("", &json["schema"], MAX_DEPTH);
            }
        }
    }
}

/// Example of a schema whose references are in `schemas`.
pub(super) fn of(schemas: &Value, schema: &Value) -> Value {
    ExampleBuilder(schemas).example_of("", schema, MAX_DEPTH)
}

/// Builder of examples, with the schemas by name.
struct ExampleBuilder<'a>(&'a Value);

impl ExampleBuilder<'_> {
    /// Example of a schema, for a field with this name.
    fn example_of(&self, name: &str, schema: &Value, deepest: usize) -> Value {
        let Some(deepest) = deepest.checked_sub(1) else {
            return Value::Null;
        };
        if let Some(own) = schema["examples"].get(0).or_else(|| schema.get("example")) {
            return own.clone();
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let target = reference.rsplit('/').next().unwrap_or_default();
            return self.example_of(name, &self.0[target], deepest);
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let parts = parts
                .iter()
                .map(|part| self.example_of(name, part, deepest));
            return merge_objects(parts);
        }
        for choice in ["oneOf", "anyOf"] {
            let first = schema[choice].as_array().and_then(|choices| {
                let mut real = choices.iter().filter(|it| it["type"] != "null");
                real.next()
            });
            if let Some(first) = first {
                return self.example_of(name, first, deepest);
            }
        }
        if let Some(first) = schema["enum"].get(0) {
            return first.clone();
        }
        self.example_of_type(name, schema, deepest)
    }

    fn example_of_type(&self, name: &str, schema: &Value, deepest: usize) -> Value {
        let is = |kind: &str| {
            let kinds = &schema["type"];
            *kinds == kind
                || kinds
                    .as_array()
                    .is_some_and(|all| all.contains(&kind.into()))
        };
        if let Some(properties) = schema["properties"].as_object() {
            let usual = properties
                .iter()
                .filter(|(name, _)| !OMITTED_FIELDS.contains(&name.as_str()));
            let fields =
                usual.map(|(name, schema)| (name.clone(), self.example_of(name, schema, deepest)));
            return Value::Object(fields.collect());
        }
        if is("array") {
            return json!([self.example_of(name, &schema["items"], deepest)]);
        }
        let named = EXAMPLES_BY_FIELD.iter().find(|(known, _)| *known == name);
        let named = named.map(|(_, example)| example());
        match named {
            Some(text @ Value::String(_)) if is("string") => return text,
            Some(number @ Value::Number(_)) if is("integer") => return number,
            Some(flag @ Value::Bool(_)) if is("boolean") => return flag,
            Some(object @ Value::Object(_)) if is("object") => return object,
            _ => {}
        }
        if is("string") {
            let is_time = TIME_SUFFIXES.iter().any(|end| name.ends_with(end));
            return json!(if is_time {
                "2026-01-02T03:04:05.678Z"
            } else {
                "text"
            });
        }
        if is("integer") {
            let least = schema["minimum"].as_u64().unwrap_or_default();
            return json!(least.max(1));
        }
        match () {
            () if is("boolean") => json!(false),
            () if is("object") => json!({}),
            () => Value::Null,
        }
    }
}

fn merge_objects(parts: impl Iterator<Item = Value>) -> Value {
    let mut whole = Map::new();
    for part in parts {
        if let Value::Object(fields) = part {
            whole.extend(fields);
        }
    }
    Value::Object(whole)
}
