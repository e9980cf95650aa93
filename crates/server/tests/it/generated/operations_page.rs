//! Generates docs/operations.md and docs/errors.md from the tables of the gateways.

use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{
    COMMON_ERROR_CODES, Interface, NotOffered, OPERATION_GROUPS, Operation, OperationGroup,
    OperationInfo, all_operations,
};
use parlor_chat::typing::SetTyping;
use parlor_server::api_error;
use parlor_server::grpc::METHOD_OPERATIONS;
use parlor_server::http::routes::ROUTES;
use parlor_server::socketio::event_table::CLIENT_EVENTS;

use super::openapi_errors::HTTP_ERROR_CODES;
use super::{code_list, comma_list};

const OPERATIONS: &str = "\
# Operations

<!-- Generated from the tables of the gateways; `make docs` rewrites it. -->

All operations of Parlor, and how to call each by HTTP, gRPC and Socket.IO. For details see
[openapi.json](openapi.json) or `/docs/` of a running server for HTTP, the `.proto` files or server reflection for gRPC,
and [events.md](events.md) for Socket.IO. [errors.md](errors.md) explains the error codes.
";

const ERRORS: &str = "\
# Errors

<!-- Generated from the codes and the tables of the gateways; `make docs` rewrites it. -->

Every error has a stable code for programs and a description for people, which may change. A published code keeps its
name and its meaning.

- HTTP responds with `application/problem+json`: `{type, title, status, code, detail, retryAfterMs?}`.
- gRPC returns a status whose details contain the same code.
- Socket.IO acknowledges an event with `{ok: false, error: {code, message, retryAfterMs?}}`. If the client did not ask
  for an acknowledgement, the error is not reported. A handshake is rejected with `connect_error`, whose `data` is
  `{code, message, retryAfterMs?}`.

If a retry can succeed, HTTP sends `Retry-After` (whole seconds) with 429 and 503, and gRPC sends a `RetryInfo`.

| code | meaning | HTTP | gRPC | retry can succeed |
|---|---|---|---|---|
";

/// Text of docs/operations.md.
pub(super) fn text() -> String {
    let mut text = String::from(OPERATIONS);
    let mut group = "";
    for info in all_operations() {
        let own = info.name.split('.').next().unwrap_or_default();
        if own != group {
            group = own;
            text += &format!(
                "\n## {group}\n\n| operation | HTTP | gRPC | Socket.IO | error codes |\n|---|---|---|---|---|\n"
            );
        }
        text += &operation_row(&info);
    }
    text += &format!(
        "\nError codes of every operation: {}. Error codes of HTTP itself: {}.\n",
        code_list(COMMON_ERROR_CODES),
        code_list(HTTP_ERROR_CODES)
    );
    text += "\n## Not offered\n\n| operations | not by | reason |\n|---|---|---|\n";
    for (name, interface) in INTERFACES {
        for (group, row) in not_offered_by(interface) {
            let operations = row.operations(group).iter();
            let operations = comma_list(operations.map(|info| format!("`{}`", info.name)));
            text += &format!("| {operations} | {name} | {} |\n", row.reason);
        }
    }
    text
}

const INTERFACES: [(&str, Interface); 3] = [
    ("HTTP", Interface::Http),
    ("gRPC", Interface::Grpc),
    ("Socket.IO", Interface::SocketIo),
];

fn not_offered_by(
    interface: Interface,
) -> impl Iterator<Item = (&'static OperationGroup, &'static NotOffered)> {
    let rows = OPERATION_GROUPS.iter().flat_map(|group| {
        let rows = group.not_offered.iter();
        rows.map(move |row| (group, row))
    });
    rows.filter(move |(_, row)| row.interface == interface)
}

fn operation_row(info: &OperationInfo) -> String {
    let routes = ROUTES.iter().filter(|route| route.info == *info);
    let routes = routes.map(|route| format!("`{} {}`", route.method, route.path));
    let methods = METHOD_OPERATIONS
        .iter()
        .filter(|(_, operation)| operation == info);
    let methods = methods.map(|(method, _)| format!("`{method}`"));
    let events = CLIENT_EVENTS.iter();
    let events = events.filter(|event| event.operation == Some(*info));
    let events = events.map(|event| format!("`{}`", event.name));
    format!(
        "| `{}`<br>{} | {} | {} | {} | {} |\n",
        info.name,
        info.summary,
        comma_list(routes),
        comma_list(methods),
        comma_list(events),
        code_list(info.codes)
    )
}

/// Text of docs/errors.md.
pub(super) fn errors() -> String {
    let rows = ErrorCode::ALL.iter().map(|&code| {
        let retryable = if code.is_retryable() { "yes" } else { "no" };
        format!(
            "| `{code}` | {} | {} | `{}` | {retryable} |\n",
            code.description(),
            api_error::http_status(code).as_u16(),
            grpc_code_name(api_error::grpc_code(code))
        )
    });
    ERRORS.to_owned() + &rows.collect::<String>()
}

/// Name of a gRPC code as in the gRPC documentation: `UNAVAILABLE` for `Unavailable`.
fn grpc_code_name(code: tonic::Code) -> String {
    let mut spelled = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !spelled.is_empty() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_uppercase());
    }
    spelled
}

#[test]
fn each_gateway_offers_every_operation_or_states_the_reason() {
    let http = ROUTES.iter().map(|route| route.info);
    let grpc = METHOD_OPERATIONS.iter().map(|(_, info)| *info);
    let socketio = CLIENT_EVENTS.iter().filter_map(|event| event.operation);
    // One operation has two events: one that starts and one that stops typing.
    let (mut typing, others): (Vec<_>, Vec<_>) =
        socketio.partition(|info| *info == SetTyping::INFO);
    assert_eq!(typing.len(), 2);
    typing.pop();
    let socketio = typing.into_iter().chain(others);
    let gateways: [(Vec<OperationInfo>, Interface); 3] = [
        (http.collect(), Interface::Http),
        (grpc.collect(), Interface::Grpc),
        (socketio.collect(), Interface::SocketIo),
    ];
    for (offered, interface) in gateways {
        for info in all_operations() {
            let reasons = not_offered_by(interface)
                .filter(|(group, row)| row.operations(group).contains(&info))
                .filter(|(_, row)| !row.reason.is_empty())
                .count();
            let offers = offered.iter().filter(|offer| **offer == info).count();
            assert_eq!(offers + reasons, 1, "{interface:?}: {}", info.name);
        }
        for info in &offered {
            assert!(all_operations().any(|it| it == *info), "{}", info.name);
        }
        for (group, row) in not_offered_by(interface) {
            for info in row.operations(group) {
                assert!(group.operations.contains(info), "{}", info.name);
            }
        }
    }
}
