//! Helpers of the methods: take a request apart, run an operation, build the response.

use parlor_chat::api::caller::Caller;
use parlor_chat::api::operation::Operation;
use tonic::{Request, Response, Status};

use crate::app_state::{AppState, resolve_acting_user};

/// Returns the caller that [`AuthenticatingService`](super::service::AuthenticatingService) has authorized, and the
/// message.
pub(super) fn caller_and_message<T>(request: Request<T>) -> (Caller, T) {
    let (_, mut extensions, message) = request.into_parts();
    let caller = extensions
        .remove()
        .expect("the service in front adds the caller");
    (caller, message)
}

/// Runs an operation and converts its reply to the response of a method.
pub(super) async fn run_operation<O: Operation, R: From<O::Reply>>(
    app: &AppState,
    caller: &Caller,
    operation: O,
) -> Result<Response<R>, Status> {
    let reply = app.run_operation(caller, operation).await?;
    Ok(Response::new(reply.into()))
}

/// Runs an operation for the user that the message names; an empty id means the caller.
pub(super) async fn run_operation_as<O: Operation, R: From<O::Reply>>(
    app: &AppState,
    caller: Caller,
    user: &str,
    operation: O,
) -> Result<Response<R>, Status> {
    let user = Some(user).filter(|user| !user.is_empty());
    let caller = resolve_acting_user(caller, user)?;
    run_operation(app, &caller, operation).await
}
