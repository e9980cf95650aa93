//! Tests of the OpenAPI document and the route table.

use std::collections::BTreeSet;

use parlor_chat::api::operation::{self, CreatesResource};
use parlor_server::http::routes::{PATH_PARAMETERS, ROUTES};
use serde_json::{Value, json};

use super::client::{call, embedded};
use crate::generated::openapi;
use crate::tokens::service;

fn document() -> Value {
    serde_json::from_str(&openapi::text()).unwrap()
}

/// Each route with its OpenAPI operation.
fn described(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut all = Vec::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    all
}

#[test]
fn every_path_parameter_sets_a_request_field() {
    let known: BTreeSet<_> = PATH_PARAMETERS.iter().map(|(name, _)| *name).collect();
    let parameters = |path: &'static str| {
        let inside = path.split('/').filter_map(|part| part.strip_prefix('{'));
        inside.map(|part| part.trim_end_matches('}'))
    };
    for route in ROUTES {
        for name in parameters(route.path) {
            assert!(known.contains(name), "{} has {{{name}}}", route.path);
        }
    }
}

#[tokio::test]
async fn the_served_document_is_the_one_in_the_repository() {
    let node = embedded().await;
    let served = call("GET", "/openapi.json").at(&node).await;
    assert_eq!(served.status, 200);
    let kind = served.header("content-type");
    assert!(kind.is_some_and(|kind| kind.starts_with("application/json")));
    assert_eq!(served.text, openapi::text());
}

#[test]
fn the_openapi_document_describes_every_route() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["title"], "Parlor");
    let described = described(&document);
    let routes: Vec<_> = described
        .iter()
        .map(|(method, path, _)| (method.as_str(), path.as_str()))
        .collect();
    assert_eq!(routes.len(), ROUTES.len());
    for route in ROUTES {
        assert!(routes.contains(&(route.method.as_str(), route.path)));
    }
    let ids: BTreeSet<_> = described
        .iter()
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), ROUTES.len(), "ids are unique");
    let scheme = &document["components"]["securitySchemes"]["bearerToken"];
    assert_eq!(
        (&scheme["type"], &scheme["scheme"]),
        (&"http".into(), &"bearer".into())
    );
    assert!(document["security"][0]["bearerToken"].is_array());
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 50, "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn collect<'d>(value: &'d Value, references: &mut Vec<&'d str>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                references.push(reference);
            }
            fields.values().for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}

#[test]
fn every_parameter_is_declared_once_and_not_repeated_in_the_body() {
    let document = document();
    for (method, path, operation) in described(&document) {
        let declared = operation["parameters"].as_array();
        let declared: Vec<_> = declared.into_iter().flatten().collect();
        let in_path: BTreeSet<_> = declared
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| {
                assert_eq!(parameter["required"], true, "{path}");
                assert!(parameter["schema"].is_object(), "{path}");
                parameter["name"].as_str().unwrap()
            })
            .collect();
        let in_template: BTreeSet<_> = path.split(['{', '}']).skip(1).step_by(2).collect();
        assert_eq!(in_path, in_template, "{path}");
        let acting = "#/components/parameters/ParlorUser";
        let acts = declared.iter().any(|it| it["$ref"] == acting);
        // Without a token there is no acting user.
        let stranger = operation["security"] == json!([]);
        assert_ne!(acts, stranger, "{path}");

        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(reference) = schema["$ref"].as_str() else {
            assert!(operation.get("requestBody").is_none(), "{method} {path}");
            continue;
        };
        let body = document
            .pointer(reference.strip_prefix('#').unwrap())
            .unwrap();
        for name in in_path {
            let field = PATH_PARAMETERS
                .iter()
                .find(|(it, _)| *it == name)
                .unwrap()
                .1;
            assert_eq!(body["properties"].get(field), None, "{method} {path}");
        }
    }
}

#[test]
fn every_error_code_is_described_under_its_status() {
    let document = document();
    for (method, path, operation) in described(&document) {
        let route = ROUTES
            .iter()
            .find(|route| route.method.as_str() == method && route.path == path)
            .unwrap();
        let responses = &operation["responses"];
        for (status, answers) in [
            ("200", route.creates_resource != CreatesResource::Always),
            ("201", route.creates_resource != CreatesResource::Never),
        ] {
            let reply = &responses[status]["content"]["application/json"]["schema"];
            assert_eq!(
                reply["$ref"].is_string(),
                answers,
                "{method} {path} {status}"
            );
        }
        for &code in route.info.codes.iter().chain(operation::COMMON_ERROR_CODES) {
            let status = parlor_server::api_error::http_status(code)
                .as_u16()
                .to_string();
            let response = &responses[&status];
            let about = response["description"].as_str().unwrap_or_default();
            assert!(
                about.contains(&format!("`{code}`")),
                "{path} {status}: {about}"
            );
            let content = &response["content"]["application/problem+json"];
            assert_eq!(content["schema"]["$ref"], "#/components/schemas/Problem");
        }
    }
}

#[tokio::test]
async fn every_body_has_a_valid_example() {
    let document = document();
    let node = embedded().await;
    for (method, path, operation) in described(&document) {
        let example = |content: &Value| content["content"]["application/json"]["example"].clone();
        for status in ["200", "201"] {
            let Some(response) = operation["responses"].get(status) else {
                continue;
            };
            let reply = example(response);
            assert!(reply.is_object(), "{method} {path} {status}: {reply}");
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let problem = &response["content"]["application/problem+json"];
            let refused = status.starts_with(['4', '5']);
            assert_eq!(problem["example"]["code"].is_string(), refused, "{path}");
        }
        let request = match operation.get("requestBody") {
            Some(body) => example(body),
            None => json!({}),
        };
        assert!(request.is_object(), "{method} {path}: {request}");
        // Path parameters without an example are numbers of messages.
        let mut path = path.clone();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default();
            let value = parameter["example"].as_str().unwrap_or("1");
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let call = call(&method, &path).by(&service());
        let call = call.header("Parlor-User", "alice").json(request);
        let response = call.at(&node).await;
        assert_ne!(response.json()["code"], "invalid_request", "{response:?}");
    }
}
