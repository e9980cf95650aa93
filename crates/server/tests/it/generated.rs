//! Tests that the generated references match the code. `make docs` runs these tests to write the references.

use std::path::Path;

use parlor_server::http::openapi;
use parlor_server::socketio::reference::{asyncapi, markdown, typescript};
use parlor_server::{cli, config::render, reference};

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
    check("docs/config.md", &render::settings_page());
}

#[test]
fn the_example_configuration_is_current() {
    check("parlor.example.toml", &render::example_toml());
}

#[test]
fn the_command_line_reference_is_current() {
    check("docs/cli.md", &cli::reference());
}

#[test]
fn the_http_reference_is_current() {
    check("docs/openapi.json", &openapi::text());
}

#[test]
fn the_reference_of_operations_is_current() {
    check("docs/operations.md", &reference::operations_page());
}

#[test]
fn the_reference_of_errors_is_current() {
    check("docs/errors.md", &reference::errors_page());
}

#[test]
fn the_document_of_the_events_is_current() {
    check("docs/asyncapi.json", &asyncapi::text());
}

#[test]
fn the_reference_of_events_is_current() {
    check("docs/events.md", &markdown::text());
}

#[test]
fn the_types_of_the_client_kit_are_current() {
    check("web/client/src/events.ts", &typescript::text());
}
