//! A route as an OpenAPI operation.

use parlor_chat::api::operation::AuthRequirement;
use parlor_chat::api::operation::CreatesResource;
use serde_json::Value;
use utoipa::openapi::path::{
    Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{Object, Schema};
use utoipa::openapi::{Content, Ref, RefOr, Required};

use parlor_server::http::idempotency_field;
use parlor_server::http::operation_schema::OperationSchema;
use parlor_server::http::routes::Route;

use super::openapi::{ACTING_USER_PARAMETER, IDEMPOTENCY_KEY_PARAMETER};
use super::{camel_case, openapi_errors};

const JSON: &str = "application/json";

/// Tag of a route: the first part of the operation's name.
pub(super) fn group(route: &Route) -> &'static str {
    let name = route.info.name;
    name.split_once('.').map_or(name, |(group, _)| group)
}

/// Schemas that a route refers to.
pub(super) fn schemas(route: &Route) -> Vec<(String, RefOr<Schema>)> {
    let schema = (route.schema)();
    let rest = body_fields(route, &schema);
    let mut schemas = schema.components;
    if route.has_body() && !rest.properties.is_empty() {
        schemas.push((schema.name, RefOr::T(Schema::Object(rest))));
    }
    schemas
}

pub(super) fn openapi_operation(route: &Route) -> Operation {
    let schema = (route.schema)();
    let rest = body_fields(route, &schema);
    let mut operation = OperationBuilder::new()
        .operation_id(Some(camel_case(route.info.name)))
        .tag(group(route))
        .summary(Some(route.info.summary))
        .description(description(route.info.summary, &schema));
    for parameter in path_parameters(route, &schema) {
        operation = operation.parameter(parameter);
    }
    if !route.has_body() {
        for parameter in query_parameters(&rest) {
            operation = operation.parameter(parameter);
        }
    } else if !rest.properties.is_empty() {
        operation = operation.request_body(Some(body(&schema, &rest)));
    }
    if route.auth == AuthRequirement::None {
        operation = operation.securities(Some([]));
    } else {
        operation = operation.parameter_ref(parameter(ACTING_USER_PARAMETER));
    }
    if accepts_idempotency_key(route) {
        operation = operation.parameter_ref(parameter(IDEMPOTENCY_KEY_PARAMETER));
    }
    operation = operation.responses(openapi_errors::error_responses(route.info.codes));
    for status in statuses(route.creates_resource) {
        operation = operation.response(*status, success_response(&schema));
    }
    operation.build()
}

fn parameter(name: &str) -> Ref {
    Ref::new(format!("#/components/parameters/{name}"))
}

/// True if a request can have an idempotency key.
pub(super) fn accepts_idempotency_key(route: &Route) -> bool {
    let schema = (route.schema)();
    let fields = schema.request.properties.keys().map(String::as_str);
    route.has_body() && idempotency_field(fields).is_some()
}

const fn statuses(creates: CreatesResource) -> &'static [&'static str] {
    match creates {
        CreatesResource::Never => &["200"],
        CreatesResource::Always => &["201"],
        CreatesResource::IfAbsent => &["200", "201"],
    }
}

/// Description, if it differs from the summary.
fn description(summary: &str, schema: &OperationSchema) -> Option<String> {
    let text = schema.request.description.clone()?;
    (text.trim_end_matches('.') != summary).then_some(text)
}

/// The request without the fields that the path sets.
fn body_fields(route: &Route, schema: &OperationSchema) -> Object {
    let mut rest = schema.request.clone();
    for (_, field) in route.path_parameters() {
        rest.properties.shift_remove(field);
        rest.required.retain(|required| required != field);
    }
    rest
}

fn path_parameters(route: &Route, schema: &OperationSchema) -> impl Iterator<Item = Parameter> {
    route.path_parameters().map(|(name, field)| {
        let property = schema.request.properties.get(field).cloned();
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(property.as_ref().and_then(description_of))
            .example(
                property
                    .as_ref()
                    .and_then(|property| example(schema, property)),
            )
            .schema(property.map(without_description))
            .build()
    })
}

/// Example of a path parameter, so that a request can be sent from the page at once.
fn example(schema: &OperationSchema, property: &RefOr<Schema>) -> Option<Value> {
    let RefOr::Ref(to) = property else {
        return None;
    };
    let name = to.ref_location.rsplit('/').next()?;
    let found = schema.components.iter().find(|(known, _)| known == name);
    match found {
        Some((_, RefOr::T(Schema::Object(object)))) => object.examples.first().cloned(),
        _ => None,
    }
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

fn body(schema: &OperationSchema, rest: &Object) -> RequestBody {
    let required = if rest.required.is_empty() {
        Required::False
    } else {
        Required::True
    };
    RequestBodyBuilder::new()
        .content(
            JSON,
            Content::new(Some(Ref::from_schema_name(schema.name.as_str()))),
        )
        .required(Some(required))
        .build()
}

fn success_response(schema: &OperationSchema) -> Response {
    let response = ResponseBuilder::new()
        .description(schema.reply_description.as_deref().unwrap_or("Success."))
        .content(JSON, Content::new(Some(schema.reply.clone())));
    openapi_errors::with_rate_limit_headers(response).build()
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
