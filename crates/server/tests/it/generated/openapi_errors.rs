//! Error responses of a route, by status.

use std::collections::BTreeMap;

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::COMMON_ERROR_CODES;
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder, Responses, ResponsesBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Content, ContentBuilder, Header, Ref};

use parlor_server::api_error::{self, ApiError};
use parlor_server::http::problem::{PROBLEM_MEDIA_TYPE, ProblemBody};

/// Error codes of HTTP itself, for every operation.
pub(super) const HTTP_ERROR_CODES: &[ErrorCode] = &[
    ErrorCode::OriginNotAllowed,
    ErrorCode::Forbidden,
    ErrorCode::InvalidId,
    ErrorCode::BodyTooLarge,
    ErrorCode::RequestTimeout,
];

/// Error responses of an operation with these error codes.
pub(super) fn error_responses(own: &[ErrorCode]) -> Responses {
    let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
    for &code in ErrorCode::ALL {
        if [own, COMMON_ERROR_CODES, HTTP_ERROR_CODES]
            .iter()
            .any(|codes| codes.contains(&code))
        {
            let status = api_error::http_status(code).as_u16();
            by_status.entry(status).or_default().push(code);
        }
    }
    by_status
        .into_iter()
        .fold(ResponsesBuilder::new(), |responses, (status, codes)| {
            responses.response(status.to_string(), error_response(status, &codes))
        })
        .build()
}

fn error_response(status: u16, codes: &[ErrorCode]) -> Response {
    let lines = codes
        .iter()
        .map(|code| format!("- `{code}`: {}", code.description()));
    let mut response = ResponseBuilder::new()
        .description(lines.collect::<Vec<_>>().join("\n"))
        .content(PROBLEM_MEDIA_TYPE, content(codes));
    if status == 401 {
        response = response.header("WWW-Authenticate", header("Always `Bearer`."));
    }
    if status == 503 || status == 429 {
        response = response.header("Retry-After", header("Seconds to wait."));
    }
    if status == 429 {
        response = with_rate_limit_headers(response);
    }
    response.build()
}

/// Adds the rate limit headers. Responses to services do not have them.
pub(super) fn with_rate_limit_headers(response: ResponseBuilder) -> ResponseBuilder {
    let number = |about| {
        HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::Integer)))
            .description(Some(about))
            .build()
    };
    response
        .header("RateLimit-Limit", number("Requests per window."))
        .header("RateLimit-Remaining", number("Requests that are left."))
        .header(
            "RateLimit-Reset",
            number("Seconds until the whole limit is free again."),
        )
}

fn content(codes: &[ErrorCode]) -> Content {
    let example = codes.first().map(|&code| {
        let error = ApiError::new(code, code.description());
        serde_json::to_value(error.problem()).unwrap_or_default()
    });
    ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(ProblemBody::name())))
        .example(example)
        .build()
}

fn header(about: &str) -> Header {
    HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .description(Some(about))
        .build()
}
