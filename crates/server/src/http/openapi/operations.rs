//! A route as an OpenAPI operation.

use parlor_chat::api::operation::AuthRequirement;
use parlor_chat::api::operation::CreatesResource;
use utoipa::openapi::path::{
    Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{Object, Schema};
use utoipa::openapi::{Content, Ref, RefOr, Required};

use super::{ACTING_USER_PARAMETER, IDEMPOTENCY_KEY_PARAMETER, Shape, error_responses};
use crate::http::request_decoder;
use crate::http::routes::Route;

const JSON: &str = "application/json";

/// Tag of a route: the first part of the operation's name.
pub(super) fn group(route: &Route) -> &'static str {
    let name = route.info.name;
    name.split_once('.').map_or(name, |(group, _)| group)
}

/// Schemas that a route refers to.
pub(super) fn schemas(route: &Route) -> Vec<(String, RefOr<Schema>)> {
    let shape = route.shape();
    let rest = body_fields(route, &shape);
    let mut schemas = shape.components;
    if route.method.has_body() && !rest.properties.is_empty() {
        schemas.push((shape.name, RefOr::T(Schema::Object(rest))));
    }
    schemas
}

pub(in crate::http) fn openapi_operation(route: &Route) -> Operation {
    let shape = route.shape();
    let rest = body_fields(route, &shape);
    let mut operation = OperationBuilder::new()
        .operation_id(Some(operation_id(route.info.name)))
        .tag(group(route))
        .summary(Some(route.info.summary))
        .description(description(route.info.summary, &shape));
    for parameter in path_parameters(route, &shape) {
        operation = operation.parameter(parameter);
    }
    if !route.method.has_body() {
        for parameter in query_parameters(&rest) {
            operation = operation.parameter(parameter);
        }
    } else if !rest.properties.is_empty() {
        operation = operation.request_body(Some(body(&shape, &rest)));
    }
    if route.auth == AuthRequirement::None {
        operation = operation.securities(Some([]));
    } else {
        operation = operation.parameter_ref(parameter(ACTING_USER_PARAMETER));
    }
    if accepts_idempotency_key(route) {
        operation = operation.parameter_ref(parameter(IDEMPOTENCY_KEY_PARAMETER));
    }
    operation = operation.responses(error_responses::error_responses(route.info.codes));
    for status in statuses(route.creates_resource) {
        operation = operation.response(*status, success_response(&shape));
    }
    operation.build()
}

fn parameter(name: &str) -> Ref {
    Ref::new(format!("#/components/parameters/{name}"))
}

/// True if a request can have an idempotency key.
pub(super) fn accepts_idempotency_key(route: &Route) -> bool {
    let shape = route.shape();
    let fields = shape.request.properties.keys().map(String::as_str);
    route.method.has_body() && request_decoder::idempotency_field(fields).is_some()
}

const fn statuses(creates: CreatesResource) -> &'static [&'static str] {
    match creates {
        CreatesResource::Never => &["200"],
        CreatesResource::Always => &["201"],
        CreatesResource::IfAbsent => &["200", "201"],
    }
}

/// Description, if it differs from the summary.
fn description(summary: &str, shape: &Shape) -> Option<String> {
    let text = shape.request.description.clone()?;
    (text.trim_end_matches('.') != summary).then_some(text)
}

/// The request without the fields that the path sets.
fn body_fields(route: &Route, shape: &Shape) -> Object {
    let mut rest = shape.request.clone();
    for (_, field) in route.path_parameters() {
        rest.properties.shift_remove(field);
        rest.required.retain(|required| required != field);
    }
    rest
}

fn path_parameters(route: &Route, shape: &Shape) -> impl Iterator<Item = Parameter> {
    route.path_parameters().map(|(name, field)| {
        let schema = shape.request.properties.get(field).cloned();
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(schema.as_ref().and_then(description_of))
            .example(schema.as_ref().and_then(|schema| shape.example(schema)))
            .schema(schema.map(without_description))
            .build()
    })
}

fn query_parameters(rest: &Object) -> impl Iterator<Item = Parameter> {
    rest.properties.iter().map(|(name, schema)| {
        let required = rest.required.contains(name);
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .required(if required {
                Required::True
            } else {
                Required::False
            })
            .description(description_of(schema))
            .schema(Some(without_description(schema.clone())))
            .build()
    })
}

fn body(shape: &Shape, rest: &Object) -> RequestBody {
    let required = if rest.required.is_empty() {
        Required::False
    } else {
        Required::True
    };
    RequestBodyBuilder::new()
        .content(
            JSON,
            Content::new(Some(Ref::from_schema_name(shape.name.as_str()))),
        )
        .required(Some(required))
        .build()
}

fn success_response(shape: &Shape) -> Response {
    let response = ResponseBuilder::new()
        .description(shape.reply_description.as_deref().unwrap_or("Success."))
        .content(JSON, Content::new(Some(shape.reply.clone())));
    error_responses::with_rate_limit_headers(response).build()
}

/// Description of a field.
fn description_of(schema: &RefOr<Schema>) -> Option<String> {
    match schema {
        RefOr::Ref(to) => (!to.description.is_empty()).then(|| to.description.clone()),
        RefOr::T(Schema::Object(object)) => object.description.clone(),
        RefOr::T(Schema::Array(array)) => array.description.clone(),
        RefOr::T(_) => None,
    }
}

/// Schema of a field without its description, which the parameter has.
fn without_description(mut schema: RefOr<Schema>) -> RefOr<Schema> {
    match &mut schema {
        RefOr::Ref(to) => to.description.clear(),
        RefOr::T(Schema::Object(object)) => object.description = None,
        RefOr::T(Schema::Array(array)) => array.description = None,
        RefOr::T(_) => {}
    }
    schema
}

/// Operation id in camel case: `presenceRemoveDevice` for `presence.remove_device`.
fn operation_id(name: &str) -> String {
    let mut id = String::with_capacity(name.len());
    let mut words = name.split(['.', '_']);
    id.extend(words.next());
    for word in words {
        let mut letters = word.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(letters.as_str());
    }
    id
}
