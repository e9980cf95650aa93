//! `parlor.v1.SessionService`.

use parlor_chat::sessions::{SessionInfo, SessionStatus, SessionValidity, ValidateSession};
use tonic::{Request, Response, Status};

use super::GrpcService;
use super::proto::v1::session::Status as ProtoStatus;
use super::proto::v1::session_service_server::SessionService;
use super::proto::v1::{Session, ValidateSessionRequest, ValidateSessionResponse};
use super::request::{caller_and_message, run_operation};

#[tonic::async_trait]
impl SessionService for GrpcService {
    async fn validate(
        &self,
        request: Request<ValidateSessionRequest>,
    ) -> Result<Response<ValidateSessionResponse>, Status> {
        let (caller, message) = caller_and_message(request);
        let user_id = message.user_id;
        run_operation(&self.0, &caller, ValidateSession { user_id }).await
    }
}

impl From<SessionValidity> for ValidateSessionResponse {
    fn from(validity: SessionValidity) -> Self {
        Self {
            valid: validity.valid,
            session: validity.session.map(Session::from),
        }
    }
}

impl From<SessionInfo> for Session {
    fn from(session: SessionInfo) -> Self {
        Self {
            user_id: session.user_id.as_str().to_owned(),
            device_id: session.device_id.as_str().to_owned(),
            status: ProtoStatus::from(session.status).into(),
            login_time: session.login_time,
            last_seen: session.last_seen,
            ip_address: session.ip_address,
        }
    }
}

impl From<SessionStatus> for ProtoStatus {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Login => Self::Login,
            SessionStatus::Anonymous => Self::Anonymous,
            SessionStatus::Blocked => Self::Blocked,
        }
    }
}
