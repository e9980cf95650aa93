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

use self::chat::Chats;
pub use self::connections::{PING, PING_ANSWER, PREFACE};
use self::gate::Gate;
use self::health::Health;
use self::limits::Limits;
use self::proto::DESCRIPTORS;
use self::proto::v1::chat_service_server::ChatServiceServer;
use self::proto::v1::limit_service_server::LimitServiceServer;
use self::proto::v1::session_service_server::SessionServiceServer;
use self::proto::v1::user_status_service_server::UserStatusServiceServer;
use self::sessions::Sessions;
pub use self::table::{ABSENT, METHODS, SERVICES};
use self::user_status::UserStatuses;
use crate::app::App;
use crate::wire::Refusal;

/// Most bytes of a request: 1,000 of the longest ids, and some room.
const MESSAGE: usize = 256 * 1024;

/// Serves on `listener` until the server stops, then waits for the open calls.
pub async fn serve(listener: TcpListener, app: App) {
    let (health, looking) = Health::new(app.clone());
    let mut work = JoinSet::new();
    work.spawn(looking);
    let gate = Gate::new(app.clone(), routes(app.clone(), health));
    connections::serve(listener, gate, app).await;
    work.join_all().await;
}

fn routes(app: App, health: Health) -> Routes {
    let described = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let proof = "the descriptors were compiled with this program";
    let reflection = described().build_v1().expect(proof);
    let older_reflection = described().build_v1alpha().expect(proof);
    let statuses = UserStatusServiceServer::new(UserStatuses(app.clone()));
    let chats = ChatServiceServer::new(Chats(app.clone()));
    let sessions = SessionServiceServer::new(Sessions(app.clone()));
    let limits = LimitServiceServer::new(Limits(app));
    Routes::new(statuses.max_decoding_message_size(MESSAGE))
        .add_service(chats.max_decoding_message_size(MESSAGE))
        .add_service(sessions.max_decoding_message_size(MESSAGE))
        .add_service(limits.max_decoding_message_size(MESSAGE))
        .add_service(HealthServer::new(health).max_decoding_message_size(MESSAGE))
        .add_service(reflection.max_decoding_message_size(MESSAGE))
        .add_service(older_reflection.max_decoding_message_size(MESSAGE))
        .prepare()
}

/// What those hear whose stream the end of the server ends.
fn ending() -> Refusal {
    Refusal::new(
        Code::ShuttingDown,
        "the server is about to end; connect again",
    )
}
