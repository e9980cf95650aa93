//! The OpenAPI document (3.1), made from the [`table`] and the types of the operations.
//!
//! Always true: what the address of a route holds is a parameter there and is not repeated in its body or query.

pub(crate) mod examples;
mod refusals;
mod routes;
mod shape;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, InfoBuilder, License, OpenApi, OpenApiBuilder, Paths, Ref, RefOr, Required,
    SecurityRequirement,
};
use utoipa::{PartialSchema, ToSchema};

use super::arguments::MOST_KEY;
use super::problem;
use super::table::ROUTES;
pub(super) use refusals::GATEWAY;
#[cfg(test)]
pub(super) use routes::describe;
pub(super) use shape::{Kind, Shape};

const INTRO: &str = include_str!("intro.md");
/// How callers show who they are.
const TOKEN: &str = "token";
/// The parameter by which a service names the user it acts for.
const ACTING_FOR: &str = "ParlorUser";

/// The parameter with the key of a request.
const KEY: &str = "IdempotencyKey";

/// What the groups of operations are about, in the order of the reference.
const GROUPS: &[(&str, &str)] = &[
    (
        "sessions",
        "Who may come in. A person's first call is `POST /v1/sessions`; without a session the others are refused.",
    ),
    (
        "presence",
        "Who is here, with how many devices, and since when they are gone.",
    ),
    (
        "conversations",
        "Who talks to whom: the list that a chat begins with, and each conversation.",
    ),
    ("members", "Who belongs to a conversation, and as what."),
    (
        "messages",
        "What was said, numbered without a gap in each conversation.",
    ),
    ("typing", "Who is writing in a conversation at the moment."),
    (
        "unread",
        "What waits for whom, and who has got and read what.",
    ),
    ("limits", "How often something may be done, for services."),
];

/// The document.
pub fn document() -> OpenApi {
    let mut paths = Paths::new();
    for route in ROUTES {
        let described = routes::describe(route);
        paths.add_path_operation(route.path, vec![route.method.described()], described);
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
        .security(Some([SecurityRequirement::new(TOKEN, [""; 0])]))
        .tags(Some(groups().map(|(name, about)| {
            let tag = TagBuilder::new().name(name).description(Some(about));
            tag.build()
        })))
        .build()
}

/// The document as JSON, with a line for each value.
pub fn text() -> String {
    let mut value =
        serde_json::to_value(document()).expect("the document holds texts and lists only");
    examples::fill(&mut value);
    format!("{value:#}\n")
}

/// The document as it is served.
pub(super) static SERVED: LazyLock<String> = LazyLock::new(text);

/// The groups that have a route.
fn groups() -> impl Iterator<Item = (&'static str, &'static str)> {
    let used = |group: &str| ROUTES.iter().any(|route| routes::group(route) == group);
    GROUPS.iter().copied().filter(move |(group, _)| used(group))
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
    components.add_security_scheme(TOKEN, SecurityScheme::Http(scheme.build()));
    let acting_for = ParameterBuilder::new()
        .name("Parlor-User")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "With a service token: the user it acts for. Others may name only themselves.",
        ))
        .schema(Some(Ref::from_schema_name("UserId")))
        .build();
    let parameters = &mut components.parameters;
    parameters.insert(ACTING_FOR.into(), RefOr::T(acting_for));
    if ROUTES.iter().any(routes::takes_key) {
        parameters.insert(KEY.into(), RefOr::T(key()));
    }
    components
}

fn key() -> Parameter {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "A request with a key that was used before changes nothing and is answered like the first. \
             What the body says counts before it.",
        ))
        .schema(Some(
            ObjectBuilder::new()
                .schema_type(Type::String)
                .min_length(Some(1))
                .max_length(Some(MOST_KEY))
                .pattern(Some("^[ -~]+$")),
        ))
        .example(Some("0f3c9a52-order-17".into()))
        .build()
}

fn schemas() -> BTreeMap<String, RefOr<Schema>> {
    let mut schemas: BTreeMap<_, _> = ROUTES.iter().flat_map(routes::schemas).collect();
    schemas.insert(problem::Body::name().into(), problem::Body::schema());
    schemas
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn two_types_of_one_name_are_one_type() {
        let mut seen: BTreeMap<String, Value> = BTreeMap::new();
        for (name, schema) in ROUTES.iter().flat_map(routes::schemas) {
            let schema = serde_json::to_value(&schema).unwrap();
            let first = seen.entry(name.clone()).or_insert_with(|| schema.clone());
            assert_eq!(*first, schema, "{name}");
        }
    }

    #[test]
    fn every_group_is_described() {
        for route in ROUTES {
            let group = routes::group(route);
            assert!(GROUPS.iter().any(|(name, _)| *name == group), "{group}");
        }
    }
}
