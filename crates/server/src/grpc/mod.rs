//! The gRPC side.
//!
//! Always true:
//! 1. A method decodes, runs an operation and encodes; [`METHODS`] says which runs which, [`ABSENT`] why some have none.
//! 2. Whatever a client does costs a bounded amount: streams and windows of a connection, the size of a message, the time
//!    until it has said hello, asked, or answered a ping.
//! 3. When the server stops, streams end at once and calls are waited for.

mod calls;
mod chat;
mod codec;
mod connections;
mod gate;
mod health;
mod limits;
pub mod proto;
mod sessions;
pub mod status;
mod subscription;
mod table;
mod user_status;

use parlor_chat::code::Code;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use self::chat::GrpcChatService;
pub use self::connections::{PING_INTERVAL, PING_TIMEOUT, PREFACE_TIMEOUT};
use self::gate::AuthenticatingService;
use self::health::HealthService;
use self::limits::GrpcLimitService;
use self::proto::DESCRIPTORS;
use self::proto::v1::chat_service_server::ChatServiceServer;
use self::proto::v1::limit_service_server::LimitServiceServer;
use self::proto::v1::session_service_server::SessionServiceServer;
use self::proto::v1::user_status_service_server::UserStatusServiceServer;
use self::sessions::GrpcSessionService;
pub use self::table::{METHOD_OPERATIONS, OPERATIONS_WITHOUT_METHOD, PARLOR_SERVICES};
use self::user_status::GrpcUserStatusService;
use crate::app::AppState;
use crate::wire::Refusal;

/// Most bytes of a request: 1,000 of the longest ids, and some room.
const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// Serves on `listener` until the server stops, then waits for the open calls.
pub async fn serve(listener: TcpListener, app: AppState) {
    let (health, looking) = HealthService::new(app.clone());
    let mut work = JoinSet::new();
    work.spawn(looking);
    let gate = AuthenticatingService::new(app.clone(), routes(app.clone(), health));
    connections::serve(listener, gate, app).await;
    work.join_all().await;
}

fn routes(app: AppState, health: HealthService) -> Routes {
    let described = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let proof = "the build script has compiled the descriptors";
    let reflection = described().build_v1().expect(proof);
    let older_reflection = described().build_v1alpha().expect(proof);
    let statuses = UserStatusServiceServer::new(GrpcUserStatusService(app.clone()));
    let chats = ChatServiceServer::new(GrpcChatService(app.clone()));
    let sessions = SessionServiceServer::new(GrpcSessionService(app.clone()));
    let limits = LimitServiceServer::new(GrpcLimitService(app));
    Routes::new(statuses.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(chats.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(sessions.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(limits.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(HealthServer::new(health).max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(reflection.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .add_service(older_reflection.max_decoding_message_size(MAX_MESSAGE_BYTES))
        .prepare()
}

/// What those hear whose stream the end of the server ends.
fn shutdown_error() -> Refusal {
    Refusal::new(Code::ShuttingDown, "the server is shutting down; reconnect")
}
