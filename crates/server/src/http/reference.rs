//! docs/operations.md and docs/errors.md, from the tables of the gateways.

use parlor_chat::code::Code;
use parlor_chat::operation::{ALL, EVERYWHERE, Info};

use super::openapi::GATEWAY;
use super::table::{ELSEWHERE, ROUTES};
use crate::{grpc, wire};

const OPERATIONS: &str = "\
# Operations

<!-- Written from the tables of the gateways; `make docs` rewrites it. -->

What can be asked of Parlor, and by which door. HTTP is described in full at `/docs/` of a running server and in
[openapi.json](openapi.json); gRPC in the `.proto` files, which a running server shows by reflection. The codes are explained in
[errors.md](errors.md).
";

const ERRORS: &str = "\
# Errors

<!-- Written from the codes and the tables of the gateways; `make docs` rewrites it. -->

A refusal has a code, which programs go by, and a text for people, which may change. HTTP answers with
`application/problem+json`: `{type, title, status, code, detail, retryAfterMs?}`. gRPC answers with a status whose details hold the same code.
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
                "\n## {group}\n\n| operation | HTTP | gRPC | refuses with |\n|---|---|---|---|\n"
            );
        }
        text += &row(info);
    }
    text += &format!(
        "\nEvery operation may also refuse with {}; HTTP itself with {}.\n",
        codes(EVERYWHERE),
        codes(GATEWAY)
    );
    let absent = ELSEWHERE
        .iter()
        .map(|(info, why)| ("HTTP", info.name, *why));
    let absent = absent.chain(grpc::ABSENT.iter().map(|(name, why)| ("gRPC", *name, *why)));
    text += "\n## Not offered\n\n| operation | not by | why |\n|---|---|---|\n";
    for (door, name, why) in absent {
        text += &format!("| `{name}` | {door} | {why} |\n");
    }
    text
}

fn row(info: &Info) -> String {
    let routes = ROUTES.iter().filter(|route| route.info == *info);
    let routes = routes.map(|route| format!("`{} {}`", route.method.name(), route.path));
    let methods = grpc::METHODS.iter().filter(|(_, name)| *name == info.name);
    let methods = methods.map(|(method, _)| format!("`{method}`"));
    format!(
        "| `{}`<br>{} | {} | {} | {} |\n",
        info.name,
        info.summary,
        listed(routes),
        listed(methods),
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
