//! `parlor.v1.UserStatusService`: each method is an operation with its fields under other names.

use std::pin::Pin;

use futures_util::Stream;
use parlor_chat::code::Code;
use parlor_chat::presence::{
    self, GetPresence, Heartbeat, NextHeartbeat, QueryPresence, SetPresence, WatchPresence,
};
use tonic::{Request, Response, Status};

use super::calls::{opened, run};
use super::proto::v1::user_status::Status as Wire;
use super::proto::v1::user_status_service_server::UserStatusService;
use super::proto::v1::{
    GetMultipleUserStatusRequest, GetMultipleUserStatusResponse, GetUserStatusRequest,
    SendHeartbeatRequest, SendHeartbeatResponse, SetUserStatusRequest, StatusUpdates,
    SubscribeStatusUpdatesRequest, UserStatus,
};
use super::subscription;
use crate::app::App;
use crate::wire::Refusal;

type Updates = Pin<Box<dyn Stream<Item = Result<StatusUpdates, Status>> + Send>>;

/// The service over the operations of presence.
pub(super) struct UserStatuses(pub(super) App);

#[tonic::async_trait]
impl UserStatusService for UserStatuses {
    async fn set_user_status(
        &self,
        request: Request<SetUserStatusRequest>,
    ) -> Result<Response<UserStatus>, Status> {
        let (caller, asked) = opened(request);
        let operation = SetPresence {
            status: wished(asked.status)?,
            user_id: asked.user_id,
            device_id: asked.device_id,
        };
        run(&self.0, &caller, operation).await
    }

    async fn get_user_status(
        &self,
        request: Request<GetUserStatusRequest>,
    ) -> Result<Response<UserStatus>, Status> {
        let (caller, asked) = opened(request);
        let mut user_id = asked.user_id;
        if user_id.is_empty() {
            let own = caller.user().map_err(Refusal::from)?;
            user_id = own.as_str().to_owned();
        }
        run(&self.0, &caller, GetPresence { user_id }).await
    }

    async fn get_multiple_user_status(
        &self,
        request: Request<GetMultipleUserStatusRequest>,
    ) -> Result<Response<GetMultipleUserStatusResponse>, Status> {
        let (caller, asked) = opened(request);
        let user_ids = asked.user_ids;
        run(&self.0, &caller, QueryPresence { user_ids }).await
    }

    async fn send_heartbeat(
        &self,
        request: Request<SendHeartbeatRequest>,
    ) -> Result<Response<SendHeartbeatResponse>, Status> {
        let (caller, asked) = opened(request);
        let operation = Heartbeat {
            user_id: asked.user_id,
            device_id: asked.device_id,
        };
        run(&self.0, &caller, operation).await
    }

    type SubscribeStatusUpdatesStream = Updates;

    async fn subscribe_status_updates(
        &self,
        request: Request<SubscribeStatusUpdatesRequest>,
    ) -> Result<Response<Updates>, Status> {
        let (caller, asked) = opened(request);
        let user_ids = asked.watch_user_ids;
        let session = self.0.attached(&caller).await?;
        let watching = self.0.run(&caller, WatchPresence { user_ids }).await?;
        let updates = subscription::updates(self.0.clone(), &caller, session, watching);
        Ok(Response::new(Box::pin(updates)))
    }
}

fn wished(status: i32) -> Result<presence::Status, Refusal> {
    match Wire::try_from(status) {
        Ok(Wire::Online) => Ok(presence::Status::Online),
        Ok(Wire::Away) => Ok(presence::Status::Away),
        Ok(Wire::Busy) => Ok(presence::Status::Busy),
        Ok(Wire::Offline) => Ok(presence::Status::Offline),
        Ok(Wire::Unspecified) | Err(_) => {
            let detail =
                format!("`status` is {status}, which is none of ONLINE, AWAY, BUSY, OFFLINE");
            Err(Refusal::new(Code::InvalidRequest, detail))
        }
    }
}

impl From<presence::Status> for Wire {
    fn from(status: presence::Status) -> Self {
        match status {
            presence::Status::Online => Self::Online,
            presence::Status::Away => Self::Away,
            presence::Status::Busy => Self::Busy,
            presence::Status::Offline => Self::Offline,
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

impl From<presence::Statuses> for GetMultipleUserStatusResponse {
    fn from(statuses: presence::Statuses) -> Self {
        Self {
            users: statuses.users.into_iter().map(UserStatus::from).collect(),
        }
    }
}

impl From<NextHeartbeat> for SendHeartbeatResponse {
    fn from(next: NextHeartbeat) -> Self {
        // Rather early than late, but never at once.
        let seconds = (next.next_in_ms / 1_000).max(1);
        Self {
            next_heartbeat_in_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
        }
    }
}
