//! Routes of an operation with all features: a number in its path, an idempotency key, and replies that can be 201.

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::any;
use http_body_util::BodyExt;
use parlor_chat::Chat;
use parlor_chat::api::caller::Caller;
use parlor_chat::api::error::Result;
use parlor_chat::api::error_code::ErrorCode;
use parlor_chat::api::operation::{CreatesResource, Operation, OperationInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tonic::codegen::Service;
use utoipa::ToSchema;

use super::operation_schema::OperationSchema;
use super::request_decoder::{RequestDecoder, RequestParts};
use super::{body, operation_handler};
use crate::api_error::ApiError;

/// Writes a message.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Write {
    /// Id of the conversation.
    conversation_id: String,
    /// Number of the message.
    #[serde(default)]
    seq: u64,
    /// Idempotency key.
    client_id: Option<String>,
}

/// Result of a write.
#[derive(Serialize, ToSchema)]
struct Written {
    /// True if the message was created.
    new: bool,
}

impl Operation for Write {
    const INFO: OperationInfo = OperationInfo {
        name: "presence.write",
        summary: "Writes something",
        codes: &[ErrorCode::RateLimited],
    };
    const CREATES: CreatesResource = CreatesResource::IfAbsent;
    type Reply = Written;

    async fn run(self, _: &Chat, _: &Caller) -> Result<Written> {
        Ok(Written { new: true })
    }

    fn is_new(written: &Written) -> bool {
        written.new
    }
}

/// The decoded request of the operation, as JSON.
async fn read(path: &str, key: Option<&str>, sent: &str) -> std::result::Result<Value, ApiError> {
    let key = key.map(str::to_owned);
    let answer = async move |params: RawPathParams, request: Request| {
        let sent = body::read_body(request.into_body()).await.unwrap();
        let parts = RequestParts {
            path: &params,
            query: "",
            body: &sent,
            key: key.as_deref(),
        };
        let decoder = RequestDecoder::new(&OperationSchema::of::<Write>());
        match decoder.decode::<Write>(&parts) {
            Ok(write) => serde_json::to_string(&write).unwrap().into_response(),
            Err(error) => (StatusCode::BAD_REQUEST, error.detail).into_response(),
        }
    };
    let mut router: Router = Router::new().route("/{id}/{seq}", any(answer));
    let request = Request::builder()
        .uri(path)
        .body(Body::from(sent.to_owned()));
    let answer = router.call(request.unwrap()).await.unwrap();
    let status = answer.status();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    if status == StatusCode::OK {
        return Ok(serde_json::from_slice(&text).unwrap());
    }
    let text = String::from_utf8(text.to_vec()).unwrap();
    Err(ApiError::new(ErrorCode::InvalidRequest, text))
}

#[tokio::test]
async fn a_number_in_a_path_is_parsed() {
    let write = read("/c1/17", None, "").await.unwrap();
    assert_eq!(
        write,
        json!({ "conversationId": "c1", "seq": 17, "clientId": null })
    );
    for wrong in ["x", "-1", "1.5", "99999999999999999999"] {
        let error = read(&format!("/c1/{wrong}"), None, "").await.unwrap_err();
        let detail = format!("`seq` in the path: `{wrong}` is not a whole number");
        assert_eq!(error.detail, detail);
    }
}

#[tokio::test]
async fn the_idempotency_key_header_is_used_if_the_body_has_no_key() {
    let key = async |key, sent| {
        read("/c1/1", Some(key), sent)
            .await
            .map(|it| it["clientId"].clone())
    };
    assert_eq!(key("a-1 ~", "").await.unwrap(), "a-1 ~");
    assert_eq!(key("a", r#"{"clientId":null}"#).await.unwrap(), "a");
    assert_eq!(key("a", r#"{"clientId":"b"}"#).await.unwrap(), "b");
    let (longest, long) = ("x".repeat(128), "x".repeat(129));
    assert_eq!(key(&longest, "").await.unwrap(), longest);
    for wrong in ["", "a\tb", "\u{f6}", &long] {
        let error = key(wrong, "").await.unwrap_err();
        assert!(error.detail.contains("Idempotency-Key"), "{error:?}");
    }
}

#[test]
fn a_created_resource_is_answered_with_201() {
    for (new, status) in [(true, 201), (false, 200)] {
        let answer = operation_handler::success_response::<Write>(&Written { new });
        assert_eq!(answer.status().as_u16(), status);
    }
}

#[test]
fn a_rate_limited_response_has_a_retry_after_header() {
    let error = ApiError::from(parlor_chat::api::error::Error::RateLimited {
        retry_after_ms: 1_001,
    });
    let answer = error.into_response();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers()["retry-after"], "2");
}
