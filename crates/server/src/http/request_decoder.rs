//! Builds the request of an operation from the parts of an HTTP request.
//!
//! Invariants:
//! 1. Path, query and body become one JSON object. The path overrides the body, and the body overrides the query.
//!    Unknown fields are ignored.
//! 2. The header `Idempotency-Key` is used only if the request has no key.
//! 3. A part that cannot be decoded is rejected with `invalid_request` and the name of the field or the position in the
//!    JSON.

use axum::extract::RawPathParams;
use parlor_chat::api::error_code::ErrorCode;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::operation_schema::{OperationSchema, QueryValueKind};
use super::routes;
use crate::api_error::ApiError;

/// Parts of a request.
pub(super) struct RequestParts<'a> {
    pub(super) path: &'a RawPathParams,
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
    /// Value of the header `Idempotency-Key`.
    pub(super) key: Option<&'a str>,
}

/// Request fields with the key of an idempotent request.
const IDEMPOTENCY_FIELDS: [&str; 2] = ["clientId", "idempotencyKey"];
/// Maximum bytes of the header `Idempotency-Key`.
pub const MAX_IDEMPOTENCY_KEY_LEN: usize = 128;

/// Request field for the idempotency key, if the request has one.
pub fn idempotency_field<'f>(mut fields: impl Iterator<Item = &'f str>) -> Option<&'f str> {
    fields.find(|field| IDEMPOTENCY_FIELDS.contains(field))
}

/// Decoder for the requests of one operation.
pub(super) struct RequestDecoder {
    fields: Vec<(String, QueryValueKind)>,
}

impl RequestDecoder {
    pub(super) fn new(schema: &OperationSchema) -> Self {
        let fields = schema.fields();
        Self {
            fields: fields.collect(),
        }
    }

    /// Decodes the request.
    pub(super) fn decode<O: DeserializeOwned>(
        &self,
        parts: &RequestParts<'_>,
    ) -> Result<O, ApiError> {
        let mut object = parse_object(parts.body)?;
        self.add_query_fields(parts.query, &mut object)?;
        if let Some(key) = parts.key {
            self.add_idempotency_key(key, &mut object)?;
        }
        for (name, value) in parts.path {
            // In a body, an empty id stands for the caller. In a path it is an error.
            if value.is_empty() {
                let text = format!("the path parameter `{name}` is empty");
                return Err(ApiError::new(ErrorCode::InvalidId, text));
            }
            let field = routes::request_field(name);
            let known = self.fields.iter().find(|(known, _)| known == field);
            let kind = known.map_or(QueryValueKind::Text, |(_, kind)| *kind);
            let value = kind.parse(value).ok_or_else(|| {
                ApiError::invalid_request(format!("`{name}` in the path: `{value}` is not {kind}"))
            })?;
            object.insert(field.to_owned(), value);
        }
        deserialize_request(&Value::Object(object))
    }

    fn add_idempotency_key(
        &self,
        key: &str,
        object: &mut Map<String, Value>,
    ) -> Result<(), ApiError> {
        let Some(field) = idempotency_field(self.fields.iter().map(|(name, _)| name.as_str()))
        else {
            return Ok(());
        };
        let fits = (1..=MAX_IDEMPOTENCY_KEY_LEN).contains(&key.len())
            && key.bytes().all(|b| (b' '..=b'~').contains(&b));
        if !fits {
            let text = format!(
                "the header `Idempotency-Key` must have 1 to {MAX_IDEMPOTENCY_KEY_LEN} printable characters"
            );
            return Err(ApiError::invalid_request(text));
        }
        let is_set = object.get(field).is_some_and(|value| !value.is_null());
        if !is_set {
            object.insert(field.to_owned(), key.into());
        }
        Ok(())
    }

    fn add_query_fields(
        &self,
        query: &str,
        object: &mut Map<String, Value>,
    ) -> Result<(), ApiError> {
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            let Some((name, kind)) = self.fields.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            let value = kind.parse(&text).ok_or_else(|| {
                ApiError::invalid_request(format!("`{name}` in the query: `{text}` is not {kind}"))
            })?;
            object.entry(name).or_insert(value);
        }
        Ok(())
    }
}

/// Parses the body; an empty body is an empty object.
fn parse_object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    let found = match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => return Ok(object),
        Ok(Value::Null) => "null",
        Ok(Value::Bool(_)) => "true or false",
        Ok(Value::Number(_)) => "a number",
        Ok(Value::String(_)) => "a string",
        Ok(Value::Array(_)) => "an array",
        Err(error) => {
            return Err(ApiError::invalid_request(format!(
                "the body is not JSON: {error}"
            )));
        }
    };
    let text = format!("the body must be a JSON object like {{}}, not {found}");
    Err(ApiError::invalid_request(text))
}

fn deserialize_request<O: DeserializeOwned>(object: &Value) -> Result<O, ApiError> {
    O::deserialize(object).or_else(|_| {
        // Tracking the path is slow, so only a request that failed is deserialized with it.
        Ok(serde_path_to_error::deserialize(object)?)
    })
}
