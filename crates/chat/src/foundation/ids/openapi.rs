//! OpenAPI schemas of the identifiers.

use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use super::rules::{MAX_ID_BYTES, MAX_LIMITER_ID_BYTES};
use super::{ConversationId, DeviceId, KeyIdentifier, LimiterId, NodeId, UserId};

const ID_REGEX: &str = "^[A-Za-z0-9._@+=~|-]+$";
/// Printable ASCII characters except spaces and braces.
const LIMITER_ID_REGEX: &str = "^[!-z|~]+$";

macro_rules! schemas {
    ($($id:ident),+: $most:ident $pattern:ident) => { $(
        impl utoipa::PartialSchema for $id {
            fn schema() -> utoipa::openapi::RefOr<Schema> {
                let label = <$id as KeyIdentifier>::KIND.label();
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some(format!("A {label}")))
                    .min_length(Some(1))
                    .max_length(Some($most))
                    .pattern(Some($pattern))
                    .examples([serde_json::json!(<$id as KeyIdentifier>::KIND.example())])
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

schemas!(UserId, ConversationId, DeviceId, NodeId: MAX_ID_BYTES ID_REGEX);
schemas!(LimiterId: MAX_LIMITER_ID_BYTES LIMITER_ID_REGEX);
