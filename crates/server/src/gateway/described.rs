//! What a type looks like on the wire, for the references.

use std::borrow::Cow;

use utoipa::openapi::schema::Schema;
use utoipa::openapi::{RefOr, schema};
use utoipa::{PartialSchema, ToSchema};

/// A type as JSON Schema.
pub struct TypeSchema {
    /// What it is called.
    pub name: Cow<'static, str>,
    /// The schema; refers to others by `#/components/schemas/…`.
    pub schema: RefOr<schema::Schema>,
    /// Those others, by name; some may stand there twice.
    pub components: Vec<(String, RefOr<Schema>)>,
}

impl TypeSchema {
    /// The type `T`.
    pub fn of<T: ToSchema>() -> Self {
        let mut components = Vec::new();
        T::schemas(&mut components);
        Self {
            name: T::name(),
            schema: <T as PartialSchema>::schema(),
            components,
        }
    }
}
