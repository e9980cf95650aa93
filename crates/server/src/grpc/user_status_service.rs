//! `parlor.v1.UserStatusService`: each method runs an operation of presence.

use std::pin::Pin;

use futures_util::Stream;
use parlor_chat::api::error_code::Code;
use parlor_chat::presence::{
    self, GetPresence, Heartbeat, HeartbeatReply, QueryPresence, SetPresence, WatchPresence,
};
use tonic::{Request, Response, Status};

use super::proto::v1::user_status::Status as Wire;
use super::proto::v1::user_status_service_server::UserStatusService;
use super::proto::v1::{
    GetMultipleUserStatusRequest, GetMultipleUserStatusResponse, GetUserStatusRequest,
    SendHeartbeatRequest, SendHeartbeatResponse, SetUserStatusRequest, StatusUpdates,
    SubscribeStatusUpdatesRequest, UserStatus,
};
use super::request::{caller_and_message, run_operation};
use super::status_subscription;
use crate::api_error::ApiError;
use crate::app_state::AppState;

type Updates = Pin<Box<dyn Stream<Item = Result<StatusUpdates, Status>> + Send>>;

/// Service for the operations of presence.
pub(super) struct GrpcUserStatusService(pub(super) AppState);

#[tonic::async_trait]
impl UserStatusService for GrpcUserStatusService {
    async fn set_user_status(
        &self,
        request: Request<SetUserStatusRequest>,
    ) -> Result<Response<UserStatus>, Status> {
        let (caller, asked) = caller_and_message(request);
        let operation = SetPresence {
            status: wished(asked.status)?,
            user_id: asked.user_id,
            device_id: asked.device_id,
        };
        run_operation(&self.0, &caller, operation).await
    }

    async fn get_user_status(
        &self,
        request: Request<GetUserStatusRequest>,
    ) -> Result<Response<UserStatus>, Status> {
        let (caller, asked) = caller_and_message(request);
        let mut user_id = asked.user_id;
        if user_id.is_empty() {
            let own = caller.user().map_err(ApiError::from)?;
            user_id = own.as_str().to_owned();
        }
        run_operation(&self.0, &caller, GetPresence { user_id }).await
    }

    async fn get_multiple_user_status(
        &self,
        request: Request<GetMultipleUserStatusRequest>,
    ) -> Result<Response<GetMultipleUserStatusResponse>, Status> {
        let (caller, asked) = caller_and_message(request);
        let user_ids = asked.user_ids;
        run_operation(&self.0, &caller, QueryPresence { user_ids }).await
    }

    async fn send_heartbeat(
        &self,
        request: Request<SendHeartbeatRequest>,
    ) -> Result<Response<SendHeartbeatResponse>, Status> {
        let (caller, asked) = caller_and_message(request);
        let operation = Heartbeat {
            user_id: asked.user_id,
            device_id: asked.device_id,
        };
        run_operation(&self.0, &caller, operation).await
    }

    type SubscribeStatusUpdatesStream = Updates;

    async fn subscribe_status_updates(
        &self,
        request: Request<SubscribeStatusUpdatesRequest>,
    ) -> Result<Response<Updates>, Status> {
        let (caller, asked) = caller_and_message(request);
        let user_ids = asked.watch_user_ids;
        let session = self.0.session_end_waiter(&caller).await?;
        let watching = self
            .0
            .run_operation(&caller, WatchPresence { user_ids })
            .await?;
        let updates =
            status_subscription::status_updates(self.0.clone(), &caller, session, watching);
        Ok(Response::new(Box::pin(updates)))
    }
}

fn wished(status: i32) -> Result<presence::PresenceStatus, ApiError> {
    match Wire::try_from(status) {
        Ok(Wire::Online) => Ok(presence::PresenceStatus::Online),
        Ok(Wire::Away) => Ok(presence::PresenceStatus::Away),
        Ok(Wire::Busy) => Ok(presence::PresenceStatus::Busy),
        Ok(Wire::Offline) => Ok(presence::PresenceStatus::Offline),
        Ok(Wire::Unspecified) | Err(_) => {
            let detail = format!("`status` is {status}; it must be ONLINE, AWAY, BUSY or OFFLINE");
            Err(ApiError::new(Code::InvalidRequest, detail))
        }
    }
}

impl From<presence::PresenceStatus> for Wire {
    fn from(status: presence::PresenceStatus) -> Self {
        match status {
            presence::PresenceStatus::Online => Self::Online,
            presence::PresenceStatus::Away => Self::Away,
            presence::PresenceStatus::Busy => Self::Busy,
            presence::PresenceStatus::Offline => Self::Offline,
        }
    }
}

impl From<presence::UserStatus> for UserStatus {
    fn from(seen: presence::UserStatus) -> Self {
        Self {
            user_id: seen.user_id.as_str().to_owned(),
            status: Wire::from(seen.status).into(),
            last_seen: seen.last_seen,
            version: seen.version,
            degraded: seen.degraded,
        }
    }
}

impl From<presence::UserStatusList> for GetMultipleUserStatusResponse {
    fn from(statuses: presence::UserStatusList) -> Self {
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
