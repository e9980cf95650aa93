//! What every method does: take the request apart, run an operation, answer.

use parlor_chat::access::Caller;
use parlor_chat::operation::Operation;
use tonic::{Request, Response, Status};

use crate::app::AppState;

/// The caller whom the gate let in, and what they ask for.
pub(super) fn caller_and_message<T>(request: Request<T>) -> (Caller, T) {
    let (_, mut extensions, asked) = request.into_parts();
    let caller = extensions
        .remove()
        .expect("the service in front adds the caller");
    (caller, asked)
}

/// Runs an operation and answers in the words of a method.
pub(super) async fn run_operation<O: Operation, R: From<O::Reply>>(
    app: &AppState,
    caller: &Caller,
    operation: O,
) -> Result<Response<R>, Status> {
    let reply = app.run_operation(caller, operation).await?;
    Ok(Response::new(reply.into()))
}
