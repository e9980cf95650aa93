//! Schemas of the request and the reply of an operation. `make docs` builds docs/openapi.json from them
//! (`crates/server/tests/it/generated`); the running server serves that file and does not build it.

use std::fmt;

use serde_json::Value;
use utoipa::openapi::schema::{Object, Schema, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::routes::HttpOperation;

/// Schemas of an operation.
pub struct OperationSchema {
    /// Name of the request type.
    pub name: String,
    /// Schema of the request.
    pub request: Object,
    /// Reference to the schema of the reply.
    pub reply: Ref,
    /// Description of the reply.
    pub reply_description: Option<String>,
    /// Schemas that both refer to.
    pub components: Vec<(String, RefOr<Schema>)>,
}

impl OperationSchema {
    /// Schemas of an operation.
    pub fn of<O: HttpOperation>() -> Self {
        let mut components = Vec::new();
        O::schemas(&mut components);
        O::Reply::schemas(&mut components);
        let reply = O::Reply::schema();
        let reply_description = match &reply {
            RefOr::T(Schema::Object(object)) => object.description.clone(),
            _ => None,
        };
        components.push((O::Reply::name().into_owned(), reply));
        let request = match O::schema() {
            RefOr::T(Schema::Object(object)) => object,
            // Only the fields of an object can come from a path and a query.
            _ => Object::new(),
        };
        Self {
            name: O::name().into_owned(),
            request,
            reply: Ref::from_schema_name(O::Reply::name()),
            reply_description,
            components,
        }
    }

    /// Fields of the request, with the parser of their query values.
    pub fn fields(&self) -> impl Iterator<Item = (String, QueryValueKind)> {
        let properties = self.request.properties.iter();
        properties.map(|(name, schema)| (name.clone(), QueryValueKind::of(schema)))
    }
}

/// How the value of a query or path parameter is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryValueKind {
    /// Unchanged, as a string.
    Text,
    /// As an integer.
    Integer,
    /// As `true` or `false`.
    Boolean,
}

impl QueryValueKind {
    fn of(schema: &RefOr<Schema>) -> Self {
        let RefOr::T(Schema::Object(object)) = schema else {
            return Self::Text;
        };
        let types = match &object.schema_type {
            SchemaType::Type(one) => std::slice::from_ref(one),
            SchemaType::Array(some) => some,
            SchemaType::AnyValue => &[],
        };
        if types.contains(&Type::Integer) {
            Self::Integer
        } else if types.contains(&Type::Boolean) {
            Self::Boolean
        } else {
            Self::Text
        }
    }

    /// Parses a value; `None` if it is not of this kind.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Text => Some(text.into()),
            Self::Integer => text.parse::<u64>().ok().map(Value::from),
            Self::Boolean => text.parse::<bool>().ok().map(Value::from),
        }
    }
}

impl fmt::Display for QueryValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "a string",
            Self::Integer => "a whole number",
            Self::Boolean => "true or false",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(ToSchema)]
    #[expect(dead_code, reason = "the test only uses the schema")]
    struct Page {
        before: Option<u64>,
        limit: u32,
        open: Option<bool>,
        order: Option<String>,
    }

    #[test]
    fn a_query_is_read_by_the_types_of_the_fields() {
        let RefOr::T(Schema::Object(page)) = Page::schema() else {
            panic!("a struct is an object");
        };
        let kind = |name: &str| QueryValueKind::of(&page.properties[name]);
        assert_eq!(kind("before"), QueryValueKind::Integer);
        assert_eq!(kind("limit"), QueryValueKind::Integer);
        assert_eq!(kind("open"), QueryValueKind::Boolean);
        assert_eq!(kind("order"), QueryValueKind::Text);
        assert_eq!(QueryValueKind::Integer.parse("17"), Some(17.into()));
        assert_eq!(QueryValueKind::Boolean.parse("true"), Some(true.into()));
        assert_eq!(QueryValueKind::Text.parse("17"), Some("17".into()));
        for wrong in ["", "x", "-1", "1.5", "true"] {
            assert_eq!(QueryValueKind::Integer.parse(wrong), None, "{wrong}");
        }
        assert_eq!(QueryValueKind::Boolean.parse("1"), None);
    }
}
