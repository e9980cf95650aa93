//! JSON schemas of types. `make docs` builds docs/asyncapi.json and the TypeScript types from them
//! (`crates/server/tests/it/generated`).

use std::borrow::Cow;

use utoipa::openapi::schema::Schema;
use utoipa::openapi::{RefOr, schema};
use utoipa::{PartialSchema, ToSchema};

/// JSON schema of a type.
pub struct TypeSchema {
    /// Name of the type.
    pub name: Cow<'static, str>,
    /// Schema; refers to other types as `#/components/schemas/…`.
    pub schema: RefOr<schema::Schema>,
    /// Schemas of these types by name. A name can occur twice.
    pub components: Vec<(String, RefOr<Schema>)>,
}

impl TypeSchema {
    /// Schema of `T`.
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
