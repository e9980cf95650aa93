//! Refusals over gRPC.
//!
//! Always true: every refusal has its [`Code`] as `reason` of the status details and as trailer [`CODE`].

use std::collections::HashMap;
use std::time::Duration;

use parlor_chat::code::Code;
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic_types::{ErrorDetails, StatusExt};

use crate::wire::{self, Refusal};

/// The trailer with the code.
pub const ERROR_CODE_TRAILER: &str = "parlor-code";
/// The domain of the codes in the status details.
pub const ERROR_DOMAIN: &str = "parlor";
/// When to try again what may succeed later, where it is not known.
const DEFAULT_RETRY_DELAY: Duration = Duration::from_secs(1);

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let Refusal {
            code,
            detail,
            retry_after_ms,
        } = refusal;
        let mut details = ErrorDetails::with_error_info(code.name(), ERROR_DOMAIN, HashMap::new());
        if code.is_retryable() {
            let known = retry_after_ms.map(Duration::from_millis);
            details.set_retry_info(Some(known.unwrap_or(DEFAULT_RETRY_DELAY)));
        }
        let mut trailers = MetadataMap::new();
        trailers.insert(ERROR_CODE_TRAILER, MetadataValue::from_static(code.name()));
        Self::with_error_details_and_metadata(wire::grpc(code), detail, details, trailers)
    }
}

/// What the library refused before anybody of ours saw it, with its code: a message too long or not to be read, a method
/// that is not there.
pub(super) fn with_error_code(status: &Status) -> Option<Status> {
    let code = match status.code() {
        tonic::Code::OutOfRange => Code::BodyTooLarge,
        tonic::Code::Unimplemented => Code::MethodNotAllowed,
        tonic::Code::Internal => Code::InvalidRequest,
        _ => return None,
    };
    let detail = match status.message() {
        "" => code.meaning(),
        message => message,
    };
    Some(Refusal::new(code, detail).into())
}
