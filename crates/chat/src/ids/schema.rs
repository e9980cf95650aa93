//! Identifiers in the HTTP reference.

use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use super::rules::{MAX_ID, MAX_LIMITER_ID};
use super::{ConversationId, DeviceId, Ident, LimiterId, NodeId, UserId};

const PLAIN: &str = "^[A-Za-z0-9._@+=~|-]+$";
/// What is printed in ASCII, without blanks and braces.
const PRINTABLE: &str = "^[!-z|~]+$";

macro_rules! schemas {
    ($($id:ident),+: $most:ident $pattern:ident) => { $(
        impl utoipa::PartialSchema for $id {
            fn schema() -> utoipa::openapi::RefOr<Schema> {
                let noun = <$id as Ident>::KIND.noun();
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some(format!("A {noun}")))
                    .min_length(Some(1))
                    .max_length(Some($most))
                    .pattern(Some($pattern))
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

schemas!(UserId, ConversationId, DeviceId, NodeId: MAX_ID PLAIN);
schemas!(LimiterId: MAX_LIMITER_ID PRINTABLE);
