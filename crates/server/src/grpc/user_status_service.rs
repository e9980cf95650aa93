//! `parlor.v1.UserStatusService`: each method runs an operation of presence.

use std::pin::Pin;

use futures_util::Stream;
use parlor_chat::presence::{
    self, GetPresence, Heartbeat, HeartbeatReply, PresenceStatus, QueryPresence, SetPresence,
    UserStatusList, WatchPresence,
};
use tonic::{Request, Response, Status};

use super::GrpcService;
use super::proto::v1::user_status::Status as ProtoStatus;
use super::proto::v1::user_status_service_server::UserStatusService;
use super::proto::v1::{
    GetMultipleUserStatusRequest, GetMultipleUserStatusResponse, GetUserStatusRequest,
    SendHeartbeatRequest, SendHeartbeatResponse, SetUserStatusRequest, StatusUpdates,
    SubscribeStatusUpdatesRequest, UserStatus,
};
use super::request::{caller_and_message, run_operation};
use super::status_subscription;
use crate::api_error::ApiError;

type StatusUpdateStream = Pin<Box<dyn Stream<Item = Result<StatusUpdates, Status>> + Send>>;

#[tonic::async_trait]
impl UserStatusService for GrpcService {
    async fn set_user_status(
        &self,
        request: Request<SetUserStatusRequest>,
    ) -> Result<Response<UserStatus>, Status> {
        let (caller, message) = caller_and_message(request);
        let operation = SetPresence {
            status: parse_status(message.status)?,
            user_id: message.user_id,
            device_id: message.device_id,
        };
        run_operation(&self.0, &caller, operation).await
    }

    async fn get_user_status(
        &self,
        request: Request<GetUserStatusRequest>,
    ) -> Result<Response<UserStatus>, Status> {
        let (caller, message) = caller_and_message(request);
        let mut user_id = message.user_id;
        if user_id.is_empty() {
            let own = caller.require_user().map_err(ApiError::from)?;
            user_id = own.as_str().to_owned();
        }
        run_operation(&self.0, &caller, GetPresence { user_id }).await
    }

    async fn get_multiple_user_status(
        &self,
        request: Request<GetMultipleUserStatusRequest>,
    ) -> Result<Response<GetMultipleUserStatusResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        let user_ids = message.user_ids;
        run_operation(&self.0, &caller, QueryPresence { user_ids }).await
    }

    async fn send_heartbeat(
        &self,
        request: Request<SendHeartbeatRequest>,
    ) -> Result<Response<SendHeartbeatResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        let operation = Heartbeat {
            user_id: message.user_id,
            device_id: message.device_id,
        };
        run_operation(&self.0, &caller, operation).await
    }

    type SubscribeStatusUpdatesStream = StatusUpdateStream;

    async fn subscribe_status_updates(
        &self,
        request: Request<SubscribeStatusUpdatesRequest>,
    ) -> Result<Response<StatusUpdateStream>, Status> {
        let (caller, message) = caller_and_message(request);
        let user_ids = message.watch_user_ids;
        let session = self.0.session_end_waiter(&caller).await?;
        let watch = self
            .0
            .run_operation(&caller, WatchPresence { user_ids })
            .await?;
        let updates = status_subscription::status_updates(self.0.clone(), &caller, session, watch);
        Ok(Response::new(Box::pin(updates)))
    }
}

fn parse_status(status: i32) -> Result<PresenceStatus, ApiError> {
    match ProtoStatus::try_from(status) {
        Ok(ProtoStatus::Online) => Ok(PresenceStatus::Online),
        Ok(ProtoStatus::Away) => Ok(PresenceStatus::Away),
        Ok(ProtoStatus::Busy) => Ok(PresenceStatus::Busy),
        Ok(ProtoStatus::Offline) => Ok(PresenceStatus::Offline),
        Ok(ProtoStatus::Unspecified) | Err(_) => {
            let detail = format!("`status` is {status}; it must be ONLINE, AWAY, BUSY or OFFLINE");
            Err(ApiError::invalid_request(detail))
        }
    }
}

impl From<PresenceStatus> for ProtoStatus {
    fn from(status: PresenceStatus) -> Self {
        match status {
            PresenceStatus::Online => Self::Online,
            PresenceStatus::Away => Self::Away,
            PresenceStatus::Busy => Self::Busy,
            PresenceStatus::Offline => Self::Offline,
        }
    }
}

impl From<presence::UserStatus> for UserStatus {
    fn from(status: presence::UserStatus) -> Self {
        Self {
            user_id: status.user_id.as_str().to_owned(),
            status: ProtoStatus::from(status.status).into(),
            last_seen: status.last_seen,
            version: status.version,
            degraded: status.degraded,
            external: status.external,
        }
    }
}

impl From<UserStatusList> for GetMultipleUserStatusResponse {
    fn from(statuses: UserStatusList) -> Self {
        Self {
            users: statuses.users.into_iter().map(UserStatus::from).collect(),
        }
    }
}

impl From<HeartbeatReply> for SendHeartbeatResponse {
    fn from(next: HeartbeatReply) -> Self {
        // Rounded down, so that the heartbeat is early rather than late, but at least one second.
        let seconds = (next.next_in_ms / 1_000).max(1);
        Self {
            next_heartbeat_in_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
        }
    }
}
