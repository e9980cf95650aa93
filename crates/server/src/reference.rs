//! Generates docs/operations.md and docs/errors.md from the tables of the gateways.

use parlor_chat::api::error_code::Code;
use parlor_chat::api::operation::{ALL_OPERATIONS, COMMON_ERROR_CODES, OperationInfo};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use crate::http::openapi::GATEWAY;
use crate::http::routes::{OPERATIONS_WITHOUT_ROUTE, ROUTES};
use crate::socketio::event_table;
use crate::socketio::type_schema::TypeSchema;
use crate::{api_error, grpc};

const OPERATIONS: &str = "\
# Operations

<!-- Generated from the tables of the gateways; `make docs` rewrites it. -->

All operations of Parlor, and how to call each by HTTP, gRPC and Socket.IO. For details see
[openapi.json](openapi.json) or `/docs/` of a running server for HTTP, the `.proto` files or server reflection for gRPC,
and the events below for Socket.IO. [errors.md](errors.md) explains the error codes.
";

const EVENTS: &str = "
## Events of Socket.IO clients

Path `/socket.io`, Socket.IO v4 clients, WebSocket or polling. `auth` of the handshake is `{token, deviceId?, resume?}`.
A service names the user it acts for with `userId`, and may join any conversation. Each event takes one JSON object and
is acknowledged with `{ok: true, …}` or `{ok: false, error}`. `heartbeat`, `typing:*` and `message:send` have their own
rate limits; every other event counts as one request of the user, like a request by HTTP.

| event | body | acknowledgement | error codes |
|---|---|---|---|
";

const NEWS: &str = "
## Events for Socket.IO clients

A message is sent to every socket that has joined its conversation, including the socket of the sender: clients
recognize duplicates by `seq`. Events that connection state recovery can replay carry their offset as a second argument.

| event | body |
|---|---|
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
pub fn operations_page() -> String {
    let mut text = String::from(OPERATIONS);
    let mut group = "";
    for info in ALL_OPERATIONS {
        let own = info.name.split('.').next().unwrap_or_default();
        if own != group {
            group = own;
            text += &format!(
                "\n## {group}\n\n| operation | HTTP | gRPC | Socket.IO | error codes |\n|---|---|---|---|---|\n"
            );
        }
        text += &operation_row(info);
    }
    text += &format!(
        "\nError codes of every operation: {}. Error codes of HTTP itself: {}.\n",
        codes(COMMON_ERROR_CODES),
        codes(GATEWAY)
    );
    text += &events();
    let absent = OPERATIONS_WITHOUT_ROUTE
        .iter()
        .map(|(info, why)| ("HTTP", info.name, *why));
    let absent = absent.chain(
        grpc::OPERATIONS_WITHOUT_METHOD
            .iter()
            .map(|(name, why)| ("gRPC", *name, *why)),
    );
    let no_events = event_table::OPERATIONS_WITHOUT_EVENT.iter();
    let absent = absent.chain(no_events.map(|(info, why)| ("Socket.IO", info.name, *why)));
    text += "\n## Not offered\n\n| operation | not by | reason |\n|---|---|---|\n";
    for (door, name, why) in absent {
        text += &format!("| `{name}` | {door} | {why} |\n");
    }
    text
}

/// Tables of the Socket.IO events in both directions.
fn events() -> String {
    let mut text = String::from(EVENTS);
    for event in event_table::CLIENT_EVENTS {
        let (body, reply) = (fields(&event.body), fields(&event.reply_schema));
        let (name, codes) = (event.name, codes(event.error_codes));
        let summary = event.summary;
        text += &format!("| `{name}`<br>{summary} | {body} | {reply} | {codes} |\n");
    }
    text += NEWS;
    for news in event_table::SERVER_EVENTS {
        let body = fields(&news.body);
        text += &format!("| `{}`<br>{} | {body} |\n", news.name, news.summary);
    }
    text
}

/// Fields of a type; optional ones have a question mark.
fn fields(described: &fn() -> TypeSchema) -> String {
    let described = described();
    let RefOr::T(Schema::Object(object)) = described.schema else {
        return format!("`{}`", described.name);
    };
    let names = object.properties.keys().map(|name| {
        let optional = if object.required.contains(name) {
            ""
        } else {
            "?"
        };
        format!("`{name}{optional}`")
    });
    comma_list(names)
}

fn operation_row(info: &OperationInfo) -> String {
    let routes = ROUTES.iter().filter(|route| route.info == *info);
    let routes = routes.map(|route| format!("`{} {}`", route.method.name(), route.path));
    let methods = grpc::METHOD_OPERATIONS
        .iter()
        .filter(|(_, name)| *name == info.name);
    let methods = methods.map(|(method, _)| format!("`{method}`"));
    let events = event_table::CLIENT_EVENTS.iter();
    let events = events.filter(|event| event.operation == Some(*info));
    let events = events.map(|event| format!("`{}`", event.name));
    format!(
        "| `{}`<br>{} | {} | {} | {} | {} |\n",
        info.name,
        info.summary,
        comma_list(routes),
        comma_list(methods),
        comma_list(events),
        codes(info.codes)
    )
}

/// Text of docs/errors.md.
pub fn errors_page() -> String {
    let rows = Code::ALL.iter().map(|&code| {
        let temporary = if code.is_retryable() { "yes" } else { "no" };
        format!(
            "| `{code}` | {} | {} | `{}` | {temporary} |\n",
            code.meaning(),
            api_error::http_status(code).as_u16(),
            grpc_code_name(api_error::grpc_code(code))
        )
    });
    ERRORS.to_owned() + &rows.collect::<String>()
}

fn codes(codes: &[Code]) -> String {
    comma_list(codes.iter().map(|code| format!("`{code}`")))
}

fn comma_list(items: impl Iterator<Item = String>) -> String {
    let listed = items.collect::<Vec<_>>().join(", ");
    if listed.is_empty() {
        "–".into()
    } else {
        listed
    }
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
