//! gRPC gateway.
//!
//! Invariants:
//! 1. A method decodes its message, runs an operation and encodes the reply. [`METHOD_OPERATIONS`] lists the operation
//!    of each method.
//! 2. The cost of a client is bounded: streams and windows of a connection, size of a message, time for the preface,
//!    for a request and for the answer to a ping.
//! 3. When the shutdown begins, streams end at once and open calls are completed.

mod chat_service;
mod codec;
pub mod errors;
mod health_service;
mod limit_service;
mod methods;
pub mod proto;
mod request;
mod server;
mod service;
mod session_service;
mod status_subscription;
mod user_status_service;

use parlor_chat::api::error_code::ErrorCode;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use self::health_service::HealthService;
pub use self::methods::{METHOD_OPERATIONS, PARLOR_SERVICES};
use self::proto::DESCRIPTORS;
use self::proto::v1::chat_service_server::ChatServiceServer;
use self::proto::v1::limit_service_server::LimitServiceServer;
use self::proto::v1::session_service_server::SessionServiceServer;
use self::proto::v1::user_status_service_server::UserStatusServiceServer;
pub use self::server::{PING_INTERVAL, PING_TIMEOUT, PREFACE_TIMEOUT};
use self::service::AuthenticatingService;
use crate::api_error::ApiError;
use crate::app_state::AppState;

/// Maximum bytes of a request: 1,000 ids of maximum length, with a reserve.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// The methods of all Parlor services, one file per service.
#[derive(Clone)]
struct GrpcService(AppState);

/// Serves on `listener` until the shutdown begins, then waits for open calls.
pub async fn serve(listener: TcpListener, app: AppState) {
    let (health, health_task) = HealthService::new(app.clone());
    let mut background_tasks = JoinSet::new();
    background_tasks.spawn(health_task);
    let service = AuthenticatingService::new(app.clone(), routes(app.clone(), health));
    server::serve(listener, service, app).await;
    background_tasks.join_all().await;
}

fn routes(app: AppState, health: HealthService) -> Routes {
    let builder = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let invariant = "the build script has compiled the descriptors";
    let reflection = builder().build_v1().expect(invariant);
    let reflection_v1alpha = builder().build_v1alpha().expect(invariant);
    let service = GrpcService(app);
    let statuses = UserStatusServiceServer::new(service.clone());
    let chats = ChatServiceServer::new(service.clone());
    let sessions = SessionServiceServer::new(service.clone());
    let limits = LimitServiceServer::new(service);
    Routes::new(statuses.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(chats.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(sessions.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(limits.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(HealthServer::new(health).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(reflection.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(reflection_v1alpha.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .prepare()
}

/// Error that ends streams at shutdown.
fn shutdown_error() -> ApiError {
    ApiError::new(
        ErrorCode::ShuttingDown,
        "the server is shutting down; reconnect",
    )
}
