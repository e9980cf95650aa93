//! Schemas of all event types, for the references of the events.
//!
//! Invariants:
//! 1. A type name means the same type in all of them.

use std::collections::BTreeMap;

use serde_json::Value;

use parlor_server::socketio::event_table::{
    CLIENT_EVENTS, connect_error_schema, error_ack_schema, handshake_schema,
};
use parlor_server::socketio::server_events::SERVER_EVENTS;
use parlor_server::socketio::type_schema::TypeSchema;

/// Prefix of a reference to another schema.
pub(super) const SCHEMA_REF_PREFIX: &str = "#/components/schemas/";

/// All types of the events, by name.
pub(super) fn schemas() -> BTreeMap<String, Value> {
    all_schemas().flat_map(with_components).collect()
}

fn all_schemas() -> impl Iterator<Item = TypeSchema> {
    let client_events = CLIENT_EVENTS
        .iter()
        .flat_map(|event| [(event.body_schema)(), (event.reply_schema)()]);
    let server_events = SERVER_EVENTS.iter().map(|event| (event.body_schema)());
    let others = [
        handshake_schema(),
        connect_error_schema(),
        error_ack_schema(),
    ];
    client_events.chain(server_events).chain(others)
}

/// A type with the types that it refers to.
fn with_components(described: TypeSchema) -> impl Iterator<Item = (String, Value)> {
    let own = (described.name.into_owned(), described.schema);
    let all = described.components.into_iter().chain([own]);
    all.map(|(name, schema)| {
        let schema = serde_json::to_value(schema).expect("a schema can be written as JSON");
        (name, schema)
    })
}

/// Name of the type if the schema is only a reference.
pub(super) fn referenced_type(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(SCHEMA_REF_PREFIX)
}

/// Description of a type or a field, in one line. If a field can be null, one of its `oneOf` schemas has it.
pub(super) fn description(schema: &Value) -> Option<String> {
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    let text = [schema]
        .into_iter()
        .chain(choices)
        .find_map(|it| it["description"].as_str())?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// True if the field is required.
pub(super) fn is_required(object: &Value, field: &str) -> bool {
    let required = object["required"].as_array();
    required.is_some_and(|all| all.iter().any(|name| name == field))
}

#[test]
fn two_types_of_one_name_are_one_type() {
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    for (name, schema) in all_schemas().flat_map(with_components) {
        let first = seen.entry(name.clone()).or_insert_with(|| schema.clone());
        assert_eq!(*first, schema, "{name}");
    }
}

#[test]
fn every_referenced_type_exists() {
    fn check(schemas: &BTreeMap<String, Value>, value: &Value) {
        if let Some(name) = referenced_type(value) {
            assert!(schemas.contains_key(name), "{name}");
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|it| check(schemas, it)),
            Value::Array(items) => items.iter().for_each(|it| check(schemas, it)),
            _ => {}
        }
    }
    let schemas = schemas();
    schemas.values().for_each(|schema| check(&schemas, schema));
}
