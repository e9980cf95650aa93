//! Reads request bodies.
//!
//! Invariants:
//! 1. At most [`MAX_BODY_BYTES`] of a body are in memory, and nothing of the body of a rejected request.
//! 2. A body that does not arrive within [`BODY_TIMEOUT`] is rejected.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use http_body_util::BodyExt;
use parlor_chat::api::error_code::ErrorCode;
use tokio::time::timeout;

use crate::api_error::ApiError;

/// Maximum size of a body.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// Time for a body to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes above the maximum that are read and discarded.
const MAX_DISCARDED_BYTES: usize = 1024 * 1024;

/// Reads the whole body.
pub(super) async fn read_body(body: Body) -> Result<Vec<u8>, ApiError> {
    if body.is_end_stream() {
        return Ok(Vec::new());
    }
    timeout(BODY_TIMEOUT, collect_up_to(body, MAX_BODY_BYTES))
        .await
        .unwrap_or_else(|_| Err(timeout_error()))
}

/// Reads and discards the body of a rejected request, because a client that is disconnected while it sends does not see
/// the response.
pub(super) async fn discard_body(body: Body) {
    let _ = timeout(BODY_TIMEOUT, collect_up_to(body, 0)).await;
}

/// Returns the whole body, or an error if it exceeds the given number of bytes.
async fn collect_up_to(mut body: Body, max_bytes: usize) -> Result<Vec<u8>, ApiError> {
    let max_read = MAX_BODY_BYTES + MAX_DISCARDED_BYTES;
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > max_read {
        return Err(too_large());
    }
    let mut whole = Vec::with_capacity(announced.min(max_bytes));
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let broken = |_| ApiError::new(ErrorCode::InvalidRequest, "the body ended early");
        let Ok(data) = frame.map_err(broken)?.into_data() else {
            continue;
        };
        length += data.len();
        if length <= max_bytes {
            whole.extend_from_slice(&data);
        } else if length > max_read {
            break;
        }
    }
    if length > max_bytes {
        return Err(too_large());
    }
    Ok(whole)
}

fn too_large() -> ApiError {
    let text = format!("the request body exceeds {} KiB", MAX_BODY_BYTES / 1024);
    ApiError::new(ErrorCode::BodyTooLarge, text)
}

fn timeout_error() -> ApiError {
    let text = format!(
        "the request body did not arrive within {} s",
        BODY_TIMEOUT.as_secs()
    );
    ApiError::new(ErrorCode::RequestTimeout, text)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Bytes;
    use futures_util::{StreamExt, stream};

    use super::*;

    fn chunks(length: usize) -> Body {
        let chunk = Bytes::from_static(&[b' '; 1024]);
        let chunks = stream::repeat(chunk).take(length.div_ceil(1024));
        Body::from_stream(chunks.map(Ok::<_, Infallible>))
    }

    #[tokio::test]
    async fn a_body_is_taken_up_to_the_limit_and_not_beyond() {
        assert_eq!(read_body(Body::empty()).await.unwrap(), b"");
        assert_eq!(
            read_body(chunks(MAX_BODY_BYTES)).await.unwrap().len(),
            MAX_BODY_BYTES
        );
        for length in [MAX_BODY_BYTES + 1, MAX_BODY_BYTES * 3, MAX_BODY_BYTES * 100] {
            let error = read_body(chunks(length)).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::BodyTooLarge, "{length}");
        }
    }

    #[tokio::test]
    async fn a_body_that_is_announced_as_endless_is_not_read_at_all() {
        let error = read_body(Body::from(vec![
            0;
            MAX_BODY_BYTES + MAX_DISCARDED_BYTES + 1
        ]))
        .await;
        assert_eq!(error.unwrap_err().code, ErrorCode::BodyTooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_completes_times_out() {
        let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(first.chain(stream::pending()));
        assert_eq!(
            read_body(body).await.unwrap_err().code,
            ErrorCode::RequestTimeout
        );
    }
}
