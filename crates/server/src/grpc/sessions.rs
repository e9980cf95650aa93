//! `parlor.v1.SessionService`.

use parlor_chat::sessions::{self, SessionView, ValidateSession, Validity};
use tonic::{Request, Response, Status};

use super::calls::{opened, run};
use super::proto::v1::session::Status as Wire;
use super::proto::v1::session_service_server::SessionService;
use super::proto::v1::{Session, ValidateSessionRequest, ValidateSessionResponse};
use crate::app::App;

/// The service over the operations of sessions.
pub(super) struct Sessions(pub(super) App);

#[tonic::async_trait]
impl SessionService for Sessions {
    async fn validate(
        &self,
        request: Request<ValidateSessionRequest>,
    ) -> Result<Response<ValidateSessionResponse>, Status> {
        let (caller, asked) = opened(request);
        let user_id = asked.user_id;
        run(&self.0, &caller, ValidateSession { user_id }).await
    }
}

impl From<Validity> for ValidateSessionResponse {
    fn from(validity: Validity) -> Self {
        Self {
            valid: validity.valid,
            session: validity.session.map(Session::from),
        }
    }
}

impl From<SessionView> for Session {
    fn from(session: SessionView) -> Self {
        Self {
            user_id: session.user_id.as_str().to_owned(),
            device_id: session.device_id.as_str().to_owned(),
            status: Wire::from(session.status).into(),
            login_time: session.login_time,
            last_seen: session.last_seen,
            ip_address: session.ip_address,
        }
    }
}

impl From<sessions::Status> for Wire {
    fn from(status: sessions::Status) -> Self {
        match status {
            sessions::Status::Login => Self::Login,
            sessions::Status::Anonymous => Self::Anonymous,
            sessions::Status::Blocked => Self::Blocked,
        }
    }
}
