//! OpenAPI document (3.1), built from the route table and the types of the operations.
//!
//! Invariants:
//! 1. A request field that the path sets is only a path parameter; it is not repeated in the body or the query.

use std::collections::BTreeMap;

use axum::http::Method;
use parlor_chat::Chat;
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{CreatesResource, Operation, OperationInfo};
use parlor_server::http::MAX_IDEMPOTENCY_KEY_LEN;
use parlor_server::http::problem::ProblemBody;
use parlor_server::http::routes::{ROUTES, Route, patch, post};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::HttpMethod;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, InfoBuilder, License, OpenApi, OpenApiBuilder, Paths, Ref, RefOr, Required,
    SecurityRequirement,
};
use utoipa::{PartialSchema, ToSchema};

use super::{examples, openapi_operations as operations};

const INTRO: &str = include_str!("openapi_intro.md");
/// Security scheme with the bearer token.
const BEARER_SCHEME: &str = "bearerToken";
/// Parameter with the user that a service acts for.
pub(super) const ACTING_USER_PARAMETER: &str = "ParlorUser";

/// Parameter with the idempotency key.
pub(super) const IDEMPOTENCY_KEY_PARAMETER: &str = "IdempotencyKey";

/// Tags with their descriptions, in the order of the reference.
const TAGS: &[(&str, &str)] = &[
    (
        "sessions",
        "Sessions: begin, end and block. Call `POST /v1/sessions` first; other calls require a session.",
    ),
    ("presence", "Presence of users and their devices."),
    (
        "conversations",
        "Conversations and the list of the caller's conversations.",
    ),
    ("members", "Members of conversations and their roles."),
    (
        "messages",
        "Messages, numbered without a gap in each conversation.",
    ),
    ("typing", "Users who are typing in a conversation."),
    ("unread", "Unread counts, read marks and read receipts."),
    ("limits", "Rate limits of your own, for services."),
];

/// Builds the document.
fn document() -> OpenApi {
    let mut paths = Paths::new();
    for route in ROUTES {
        let described = operations::openapi_operation(route);
        paths.add_path_operation(route.path, vec![openapi_method(&route.method)], described);
    }
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Parlor")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(INTRO.trim_end()))
                .license(Some(License::new("Apache-2.0 OR MIT")))
                .build(),
        )
        .paths(paths)
        .components(Some(components()))
        .security(Some([SecurityRequirement::new(BEARER_SCHEME, [""; 0])]))
        .tags(Some(TAGS.iter().map(|(name, about)| {
            let tag = TagBuilder::new().name(*name).description(Some(*about));
            tag.build()
        })))
        .build()
}

/// The document as JSON, one line per value.
pub fn text() -> String {
    let mut value = serde_json::to_value(document()).expect("the document can be written as JSON");
    examples::add_examples(&mut value);
    format!("{value:#}\n")
}

fn openapi_method(method: &Method) -> HttpMethod {
    match method.as_str() {
        "GET" => HttpMethod::Get,
        "PUT" => HttpMethod::Put,
        "POST" => HttpMethod::Post,
        "PATCH" => HttpMethod::Patch,
        _ => HttpMethod::Delete,
    }
}

fn components() -> Components {
    let mut components = Components::new();
    components.schemas = schemas();
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some(
            "A token of your issuer, or one that `parlor token --user alice` prints.",
        ));
    components.add_security_scheme(BEARER_SCHEME, SecurityScheme::Http(scheme.build()));
    let acting_for = ParameterBuilder::new()
        .name("Parlor-User")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "With a service token: id of the user that the service acts for. Other callers may only name themselves.",
        ))
        .schema(Some(Ref::from_schema_name("UserId")))
        .build();
    let parameters = &mut components.parameters;
    parameters.insert(ACTING_USER_PARAMETER.into(), RefOr::T(acting_for));
    parameters.insert(
        IDEMPOTENCY_KEY_PARAMETER.into(),
        RefOr::T(idempotency_key_parameter()),
    );
    components
}

fn idempotency_key_parameter() -> Parameter {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "A request with a key that was used before changes nothing and returns the first result. \
            A key in the body overrides this header.",
        ))
        .schema(Some(
            ObjectBuilder::new()
                .schema_type(Type::String)
                .min_length(Some(1))
                .max_length(Some(MAX_IDEMPOTENCY_KEY_LEN))
                .pattern(Some("^[ -~]+$")),
        ))
        .example(Some("0f3c9a52-order-17".into()))
        .build()
}

fn schemas() -> BTreeMap<String, RefOr<Schema>> {
    let mut schemas: BTreeMap<_, _> = ROUTES.iter().flat_map(operations::schemas).collect();
    schemas.insert(ProblemBody::name().into(), ProblemBody::schema());
    schemas
}

#[test]
fn two_types_of_one_name_are_one_type() {
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    for (name, schema) in ROUTES.iter().flat_map(operations::schemas) {
        let schema = serde_json::to_value(&schema).unwrap();
        let first = seen.entry(name.clone()).or_insert_with(|| schema.clone());
        assert_eq!(*first, schema, "{name}");
    }
}

#[test]
fn every_tag_is_described() {
    for route in ROUTES {
        let group = operations::group(route);
        assert!(TAGS.iter().any(|(name, _)| *name == group), "{group}");
    }
}

/// Writes a message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "the test only uses the schema")]
struct Write {
    /// Id of the conversation.
    conversation_id: String,
    /// Number of the message.
    seq: u64,
    /// Idempotency key.
    client_id: Option<String>,
}

/// Result of a write.
#[derive(Serialize, ToSchema)]
struct Written {
    /// True if the message was created.
    new: bool,
}

impl Operation for Write {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.write",
        summary: "Writes something",
        codes: &[ErrorCode::RateLimited],
    };
    const CREATES: CreatesResource = CreatesResource::IfAbsent;
    type Reply = Written;

    async fn run(self, _: &Chat, _: &Caller) -> parlor_chat::api::error::Result<Written> {
        Ok(Written { new: true })
    }
}

#[test]
fn openapi_lists_the_response_codes_and_the_idempotency_key_parameter() {
    static POST: Route = post::<Write>("/v1/things/{id}/{seq}");
    static PATCH: Route = patch::<Write>("/v1/things/{id}/{seq}");
    for route in [&POST, &PATCH] {
        let described = serde_json::to_value(operations::openapi_operation(route)).unwrap();
        for status in ["200", "201", "429"] {
            assert!(described["responses"][status].is_object(), "{described}");
        }
        let parameters = described["parameters"].to_string();
        assert!(parameters.contains("IdempotencyKey"), "{parameters}");
    }
    let document = text();
    assert!(document.contains("IdempotencyKey") && document.contains("clientId"));
}
