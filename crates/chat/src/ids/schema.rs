//! Identifiers in the HTTP reference.

use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use super::rules::MAX_ID;
use super::{ConversationId, DeviceId, Ident, NodeId, UserId};

macro_rules! schemas {
    ($($id:ident),+) => { $(
        impl utoipa::PartialSchema for $id {
            fn schema() -> utoipa::openapi::RefOr<Schema> {
                let noun = <$id as Ident>::KIND.noun();
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some(format!("A {noun}")))
                    .min_length(Some(1))
                    .max_length(Some(MAX_ID))
                    .pattern(Some("^[A-Za-z0-9._@+=~|-]+$"))
                    .examples([serde_json::json!(<$id as Ident>::KIND.example())])
                    .into()
            }
        }

        impl utoipa::ToSchema for $id {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($id).into()
            }
        }
    )+ };
}

schemas!(UserId, ConversationId, DeviceId, NodeId);
