//! docs/operations.md and docs/errors.md, from the tables of the gateways.

use parlor_chat::code::Code;
use parlor_chat::operation::{ALL, EVERYWHERE, Info};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use super::openapi::GATEWAY;
use super::table::{ELSEWHERE, ROUTES};
use crate::gateway::described::Described;
use crate::gateway::table as socketio;
use crate::{grpc, wire};

const OPERATIONS: &str = "\
# Operations

<!-- Written from the tables of the gateways; `make docs` rewrites it. -->

What can be asked of Parlor, and by which door. HTTP is described in full at `/docs/` of a running server and in
[openapi.json](openapi.json); gRPC in the `.proto` files, which a running server shows by reflection; the events of Socket.IO
below. The codes are explained in [errors.md](errors.md).
";

const EVENTS: &str = "
## Events of Socket.IO clients

Path `/socket.io`, Socket.IO v4 clients, WebSocket or polling. `auth` of the handshake is `{token, deviceId?, resume?}`; a service
names whom it acts for with `userId`, and may join any conversation. Each event takes one JSON object and is acknowledged with
`{ok: true, …}` or `{ok: false, error}`. `heartbeat`, `typing:*` and `message:send` have limits of their own; every other event takes one place
of the user's budget, as a request by HTTP does.

| event | body | acknowledged with | refuses with |
|---|---|---|---|
";

const NEWS: &str = "
## Events for Socket.IO clients

Messages go to every socket that has joined their conversation, that of the sender included: clients tell them apart by `seq`. Events
that a lost connection is made up for carry their offset as a second argument.

| event | body |
|---|---|
";

const ERRORS: &str = "\
# Errors

<!-- Written from the codes and the tables of the gateways; `make docs` rewrites it. -->

A refusal has a code, which programs go by, and a text for people, which may change. HTTP answers with
`application/problem+json`: `{type, title, status, code, detail, retryAfterMs?}`. gRPC answers with a status whose details hold the same code.
Socket.IO acknowledges with `{ok: false, error: {code, message, retryAfterMs?}}`, and a handshake is refused with `connect_error`, whose `data` is
`{code, message, retryAfterMs?}`. An event for which no acknowledgement was asked is refused in silence.
A code that was published keeps its name and its meaning. Where trying again may help, HTTP says `Retry-After` (whole seconds) with 429 and 503, and gRPC sends a `RetryInfo`.

| code | meaning | HTTP | gRPC | temporary |
|---|---|---|---|---|
";

/// The text of docs/operations.md.
pub fn operations() -> String {
    let mut text = String::from(OPERATIONS);
    let mut group = "";
    for info in ALL {
        let own = info.name.split('.').next().unwrap_or_default();
        if own != group {
            group = own;
            text += &format!(
                "\n## {group}\n\n| operation | HTTP | gRPC | Socket.IO | refuses with |\n|---|---|---|---|---|\n"
            );
        }
        text += &row(info);
    }
    text += &format!(
        "\nEvery operation may also refuse with {}; HTTP itself with {}.\n",
        codes(EVERYWHERE),
        codes(GATEWAY)
    );
    text += &events();
    let absent = ELSEWHERE
        .iter()
        .map(|(info, why)| ("HTTP", info.name, *why));
    let absent = absent.chain(grpc::ABSENT.iter().map(|(name, why)| ("gRPC", *name, *why)));
    let no_events = socketio::ELSEWHERE.iter();
    let absent = absent.chain(no_events.map(|(info, why)| ("Socket.IO", info.name, *why)));
    text += "\n## Not offered\n\n| operation | not by | why |\n|---|---|---|\n";
    for (door, name, why) in absent {
        text += &format!("| `{name}` | {door} | {why} |\n");
    }
    text
}

/// What is said by Socket.IO, in both directions.
fn events() -> String {
    let mut text = String::from(EVENTS);
    for event in socketio::EVENTS {
        let (body, reply) = (fields(&event.body), fields(&event.reply));
        let (name, codes) = (event.name, codes(event.codes));
        let summary = event.summary;
        text += &format!("| `{name}`<br>{summary} | {body} | {reply} | {codes} |\n");
    }
    text += NEWS;
    for news in socketio::NEWS {
        let body = fields(&news.body);
        text += &format!("| `{}`<br>{} | {body} |\n", news.name, news.summary);
    }
    text
}

/// The fields of a type; those that may be absent with a question mark.
fn fields(described: &fn() -> Described) -> String {
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
    listed(names)
}

fn row(info: &Info) -> String {
    let routes = ROUTES.iter().filter(|route| route.info == *info);
    let routes = routes.map(|route| format!("`{} {}`", route.method.name(), route.path));
    let methods = grpc::METHODS.iter().filter(|(_, name)| *name == info.name);
    let methods = methods.map(|(method, _)| format!("`{method}`"));
    let events = socketio::EVENTS.iter();
    let events = events.filter(|event| event.operation == Some(*info));
    let events = events.map(|event| format!("`{}`", event.name));
    format!(
        "| `{}`<br>{} | {} | {} | {} | {} |\n",
        info.name,
        info.summary,
        listed(routes),
        listed(methods),
        listed(events),
        codes(info.codes)
    )
}

/// The text of docs/errors.md.
pub fn errors() -> String {
    let rows = Code::ALL.iter().map(|&code| {
        let temporary = if code.is_temporary() { "yes" } else { "no" };
        format!(
            "| `{code}` | {} | {} | `{}` | {temporary} |\n",
            code.meaning(),
            wire::http(code).as_u16(),
            spelled(wire::grpc(code))
        )
    });
    ERRORS.to_owned() + &rows.collect::<String>()
}

fn codes(codes: &[Code]) -> String {
    listed(codes.iter().map(|code| format!("`{code}`")))
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let listed = items.collect::<Vec<_>>().join(", ");
    if listed.is_empty() {
        "–".into()
    } else {
        listed
    }
}

/// `UNAVAILABLE` rather than `Unavailable`, as the documentation of gRPC has it.
fn spelled(code: tonic::Code) -> String {
    let mut spelled = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_ascii_uppercase() && !spelled.is_empty() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_uppercase());
    }
    spelled
}
