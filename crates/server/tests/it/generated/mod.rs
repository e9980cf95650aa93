//! Tests that the generated references match the code. `make docs` runs these tests to write the references.

pub mod asyncapi;
mod cli_page;
mod config_page;
mod event_schemas;
mod events_page;
mod examples;
pub mod openapi;
mod openapi_errors;
mod openapi_operations;
mod operations_page;
mod reliability;
mod typescript;

use std::path::Path;

use heck::ToLowerCamelCase;
use parlor_chat::api::error_code::ErrorCode;

/// Error codes as a list.
fn code_list(codes: &[ErrorCode]) -> String {
    comma_list(codes.iter().map(|code| format!("`{code}`")))
}

/// Texts separated by commas; a dash if there are none.
fn comma_list(items: impl Iterator<Item = String>) -> String {
    match items.collect::<Vec<_>>().join(", ") {
        list if list.is_empty() => "–".into(),
        list => list,
    }
}

/// Name in camel case: `presenceRemoveDevice` for `presence.remove_device`, `messageSend` for `message:send`.
fn camel_case(name: &str) -> String {
    name.to_lower_camel_case()
}

fn check(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    if std::env::var_os("PARLOR_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(&path, text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "{} does not match the code; update it with `make docs`",
        path.display()
    );
}

#[test]
fn the_configuration_reference_is_current() {
    check("docs/config.md", &config_page::text());
}

#[test]
fn the_example_configuration_is_current() {
    check("parlor.example.toml", &config_page::example_toml());
}

#[test]
fn the_command_line_reference_is_current() {
    check("docs/cli.md", &cli_page::text());
}

#[test]
fn the_http_reference_is_current() {
    check("docs/openapi.json", &openapi::text());
}

#[test]
fn the_reference_of_operations_is_current() {
    check("docs/operations.md", &operations_page::text());
}

#[test]
fn the_reference_of_errors_is_current() {
    check("docs/errors.md", &operations_page::errors());
}

#[test]
fn the_document_of_the_events_is_current() {
    check("docs/asyncapi.json", &asyncapi::text());
}

#[test]
fn the_reference_of_events_is_current() {
    check("docs/events.md", &events_page::text());
}

#[test]
fn the_types_of_the_client_kit_are_current() {
    check("web/client/src/events.ts", &typescript::text());
}

#[tokio::test]
async fn the_table_of_faults_is_current() {
    check("docs/reliability.md", &reliability::text().await);
}
