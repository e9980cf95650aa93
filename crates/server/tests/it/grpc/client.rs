//! gRPC client of the tests.

use std::net::SocketAddr;
use std::time::Duration;

use parlor_embedded::{Clock, SystemClock};
use parlor_server::grpc::errors::{ERROR_CODE_TRAILER, ERROR_DOMAIN};
use parlor_server::grpc::proto::v1::{
    GetUserStatusRequest, SetUserStatusRequest, StatusUpdates, SubscribeStatusUpdatesRequest,
    UserStatus, user_status,
};
use prost::Message;
use serde_json::json;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

pub use crate::http::client::{node, ready};
use crate::tokens::token_with_claims;
pub use crate::tokens::{SECRET, service as service_token};

pub const SERVICE: &str = "parlor.v1.UserStatusService";
/// Timeout of a test step.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Token of a user that expires in this many seconds; negative for one that has expired, apart from the leeway.
pub fn token(user: &str, seconds: f64) -> String {
    let now = SystemClock.now_ms() as f64 / 1_000.0;
    token_with_claims(user, &json!({ "iat": now - 600.0, "exp": now + seconds }))
}

/// gRPC client with a token.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    token: Option<String>,
}

impl Client {
    /// Client with a token of this user.
    pub async fn of(user: &str, address: SocketAddr) -> Self {
        Self::new(Some(token(user, 600.0)), address).await
    }

    pub async fn new(token: Option<String>, address: SocketAddr) -> Self {
        Self::with_endpoint(token, endpoint(address)).await
    }

    pub async fn with_endpoint(token: Option<String>, endpoint: Endpoint) -> Self {
        let channel = endpoint.connect().await.unwrap();
        Self { channel, token }
    }

    pub async fn call<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        method: &str,
        request: Q,
    ) -> Result<A, Status> {
        self.ask(SERVICE, method, request).await
    }

    /// Calls a method of another service.
    pub async fn ask<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        service: &str,
        method: &str,
        request: Q,
    ) -> Result<A, Status> {
        let (mut grpc, path) = self.opened(service, method).await;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(self.request(request), path, codec).await?;
        Ok(answer.into_inner())
    }

    pub async fn open<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        service: &str,
        method: &str,
        request: Q,
    ) -> Result<Streaming<A>, Status> {
        let (mut grpc, path) = self.opened(service, method).await;
        let codec = ProstCodec::<Q, A>::default();
        let request = self.request(request);
        let answer = grpc.server_streaming(request, path, codec).await?;
        Ok(answer.into_inner())
    }

    /// Opens a call whose request message is never sent.
    pub async fn call_without_message<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        service: &str,
        method: &str,
    ) -> Result<Streaming<A>, Status> {
        let (mut grpc, path) = self.opened(service, method).await;
        let codec = ProstCodec::<Q, A>::default();
        let request = self.request(futures_util::stream::pending());
        Ok(grpc.streaming(request, path, codec).await?.into_inner())
    }

    async fn opened(&self, service: &str, method: &str) -> (Grpc<Channel>, PathAndQuery) {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        (grpc, format!("/{service}/{method}").parse().unwrap())
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        request
    }

    pub async fn set(&self, status: user_status::Status) -> Result<UserStatus, Status> {
        self.set_for("", status).await
    }

    pub async fn set_for(
        &self,
        user: &str,
        status: user_status::Status,
    ) -> Result<UserStatus, Status> {
        let request = SetUserStatusRequest {
            user_id: user.into(),
            status: status.into(),
            device_id: None,
        };
        self.call("SetUserStatus", request).await
    }

    pub async fn get(&self, user: &str) -> Result<UserStatus, Status> {
        let user_id = user.into();
        self.call("GetUserStatus", GetUserStatusRequest { user_id })
            .await
    }

    pub async fn subscribe(&self, users: &[&str]) -> Result<Streaming<StatusUpdates>, Status> {
        let request = SubscribeStatusUpdatesRequest {
            watch_user_ids: users.iter().map(|&user| user.into()).collect(),
        };
        self.open(SERVICE, "SubscribeStatusUpdates", request).await
    }
}

pub fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).unwrap()
}

/// Waits for the next message of a stream, or for its error.
pub async fn next<T>(stream: &mut Streaming<T>) -> Result<T, Status> {
    let said = timeout(TEST_TIMEOUT, stream.message()).await;
    let said = said.expect("the stream sends a message in time")?;
    Ok(said.expect("the stream does not end without an error"))
}

/// Users in the first message of a stream.
pub async fn snapshot(stream: &mut Streaming<StatusUpdates>) -> Vec<UserStatus> {
    let message = next(stream).await.unwrap();
    assert!(message.snapshot, "{message:?}");
    message.users
}

/// Users in a later message of a stream.
pub async fn changes(stream: &mut Streaming<StatusUpdates>) -> Vec<UserStatus> {
    let message = next(stream).await.unwrap();
    assert!(!message.snapshot, "{message:?}");
    message.users
}

/// Watches the health of the node.
pub async fn health(client: &Client) -> Streaming<HealthCheckResponse> {
    let all = HealthCheckRequest::default();
    let stream = client.open("grpc.health.v1.Health", "Watch", all).await;
    stream.unwrap()
}

/// Fails unless the error has this status and this error code in the details and the trailer.
pub fn assert_refused(status: &Status, grpc: Code, code: &str) {
    let details = status.check_error_details().unwrap();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("no details: {status:?}"));
    let trailer = status
        .metadata()
        .get(ERROR_CODE_TRAILER)
        .map(|it| it.to_str().unwrap());
    assert_eq!(
        (
            status.code(),
            info.reason.as_str(),
            info.domain.as_str(),
            trailer
        ),
        (grpc, code, ERROR_DOMAIN, Some(code)),
        "{status:?}"
    );
    assert!(!status.message().is_empty(), "{status:?}");
    let retry = details.retry_info().and_then(|it| it.retry_delay);
    let temporary = grpc == Code::Unavailable || code == "rate_limited";
    assert_eq!(retry.is_some(), temporary, "{status:?}");
}
