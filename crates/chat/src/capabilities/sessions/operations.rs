//! Operations of sessions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::model::{SessionStatus, UserSession};
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::api::error_code::ErrorCode;
use crate::api::operation::{AuthRequirement, CreatesResource, Operation, OperationInfo};
use crate::chat::Chat;
use crate::ids::{DeviceId, UserId};

/// Maximum length of the reason for a block in bytes.
pub(crate) const MAX_BLOCK_REASON_BYTES: usize = 256;

/// Begins a session of the caller; it replaces the user's earlier session.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BeginSession {
    /// Device that begins the session; default `api`.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

/// A session of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Owner of the session.
    pub user_id: UserId,
    /// Device that began the session.
    pub device_id: DeviceId,
    /// Access that the session gives.
    pub status: SessionStatus,
    /// Start of the session, ISO 8601.
    pub login_time: String,
    /// Last use, accurate to about 30 seconds, ISO 8601.
    pub last_seen: String,
    /// Address from which the session began; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
}

impl From<UserSession> for SessionInfo {
    fn from(session: UserSession) -> Self {
        Self {
            user_id: session.user_id,
            device_id: session.device_id,
            status: session.status,
            login_time: session.login_time.to_iso8601(),
            last_seen: session.last_seen.to_iso8601(),
            ip_address: Some(session.ip_address).filter(|address| !address.is_empty()),
        }
    }
}

impl Operation for BeginSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.begin",
        summary: "Begins a session of the caller",
        codes: &[ErrorCode::InvalidId, ErrorCode::UserRequired],
    };
    const AUTH: AuthRequirement = AuthRequirement::Token;
    const CREATES: CreatesResource = CreatesResource::Always;
    const WRITES_DATABASE: bool = true;
    type Reply = SessionInfo;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionInfo> {
        let session = chat.sessions().begin(caller, self.device_id.as_deref());
        Ok(session.await?.into())
    }
}

/// Creates a visitor without an account: a new user id, a token and a session. Requires `sessions.anonymous`.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "deviceId": "kiosk-7" }))]
pub struct BeginVisitorSession {
    /// Device that begins the session; default `api`.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

/// A visitor without an account: token and session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct VisitorSession {
    /// Bearer token of the visitor.
    pub token: String,
    /// Session of the visitor.
    pub session: SessionInfo,
}

impl Operation for BeginVisitorSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.visit",
        summary: "Begins a session of a visitor without an account",
        codes: &[ErrorCode::InvalidId, ErrorCode::Forbidden],
    };
    const AUTH: AuthRequirement = AuthRequirement::None;
    const CREATES: CreatesResource = CreatesResource::Always;
    const WRITES_DATABASE: bool = true;
    type Reply = VisitorSession;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<VisitorSession> {
        let begun = chat
            .sessions()
            .begin_visitor_session(caller, self.device_id.as_deref());
        let (token, session) = begun.await?;
        Ok(VisitorSession {
            token,
            session: session.into(),
        })
    }
}

/// Returns the caller's session.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct GetSession {}

impl Operation for GetSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.get",
        summary: "Returns the caller's session",
        codes: &[ErrorCode::UserRequired],
    };
    type Reply = SessionInfo;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionInfo> {
        Ok(chat
            .sessions()
            .session(caller.require_user()?)
            .await?
            .into())
    }
}

/// Ends the caller's session, removes the user's devices and revokes all tokens issued until now.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct EndSession {}

/// Reply of a logout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnded {
    /// User whose session ended.
    pub user_id: UserId,
}

impl Operation for EndSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.end",
        summary: "Ends the caller's session and revokes older tokens",
        codes: &[ErrorCode::UserRequired],
    };
    const AUTH: AuthRequirement = AuthRequirement::Token;
    const WRITES_DATABASE: bool = true;
    type Reply = SessionEnded;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionEnded> {
        end_session(chat, caller.require_user()?).await
    }
}

/// Returns the session of a user. For admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetUserSession {
    /// Owner of the session.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

const ADMIN_ERROR_CODES: &[ErrorCode] = &[
    ErrorCode::InvalidId,
    ErrorCode::Forbidden,
    ErrorCode::NotFound,
];

impl Operation for GetUserSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.admin.get",
        summary: "Returns the session of a user",
        codes: ADMIN_ERROR_CODES,
    };
    type Reply = SessionInfo;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionInfo> {
        let user = require_admin(caller, &self.user_id)?;
        session_or_not_found(&user, chat.sessions().session(&user).await)
    }
}

/// Blocks or unblocks a user. For admins and services.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateUserSession {
    /// User to block or unblock.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// `blocked` blocks the user; `login` unblocks the user.
    pub status: SessionStatus,
    /// Reason for the block, at most 256 bytes.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for UpdateUserSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.admin.change",
        summary: "Blocks or unblocks a user",
        codes: ADMIN_ERROR_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = SessionInfo;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionInfo> {
        let user = require_admin(caller, &self.user_id)?;
        let reason = self.reason.as_deref();
        if reason.is_some_and(|it| it.len() > MAX_BLOCK_REASON_BYTES || it.contains('\0')) {
            let text = format!("`reason` has a NUL or more than {MAX_BLOCK_REASON_BYTES} bytes");
            return Err(Error::InvalidRequest(text));
        }
        match self.status {
            SessionStatus::Blocked => {
                let blocked = chat.sessions().block(&user, reason).await?;
                remove_all_devices(chat, &user).await?;
                Ok(blocked.into())
            }
            SessionStatus::Login => {
                session_or_not_found(&user, chat.sessions().unblock(&user).await)
            }
            SessionStatus::Anonymous => Err(Error::InvalidRequest(
                "`status` can be set to `blocked` or `login`".into(),
            )),
        }
    }
}

/// Ends the session of a user, removes the user's devices and revokes all tokens issued until now. For admins and
/// services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndUserSession {
    /// Owner of the session.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

impl Operation for EndUserSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.admin.end",
        summary: "Ends the session of a user and revokes older tokens",
        codes: ADMIN_ERROR_CODES,
    };
    const WRITES_DATABASE: bool = true;
    type Reply = SessionEnded;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionEnded> {
        end_session(chat, &require_admin(caller, &self.user_id)?).await
    }
}

/// Checks whether a user has a session that is not blocked. For admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidateSession {
    /// Id of the user.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

/// Whether a user has a session that is not blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionValidity {
    /// True if the user has a session that is not blocked.
    pub valid: bool,
    /// The session, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionInfo>,
}

impl Operation for ValidateSession {
    const INFO: OperationInfo = OperationInfo {
        name: "sessions.validate",
        summary: "Checks whether a user has a session that is not blocked",
        codes: ADMIN_ERROR_CODES,
    };
    type Reply = SessionValidity;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionValidity> {
        let user = require_admin(caller, &self.user_id)?;
        match chat.sessions().session(&user).await {
            Ok(session) => Ok(SessionValidity {
                valid: session.status != SessionStatus::Blocked,
                session: Some(session.into()),
            }),
            Err(Error::SessionExpired) => Ok(SessionValidity {
                valid: false,
                session: None,
            }),
            Err(error) => Err(error),
        }
    }
}

/// Parses a user id and checks that the caller is an admin or a service. Users may not administer sessions, not even
/// their own.
fn require_admin(caller: &Caller, user: &str) -> Result<UserId> {
    let user = UserId::new(user)?;
    caller.require_admin_or_service("administer sessions")?;
    Ok(user)
}

/// Not `session_expired`, because the caller cannot renew the session of another user.
fn session_or_not_found(user: &UserId, session: Result<UserSession>) -> Result<SessionInfo> {
    match session {
        Err(Error::SessionExpired) => Err(Error::NotFound(format!("{user} has no session"))),
        session => Ok(session?.into()),
    }
}

async fn end_session(chat: &Chat, user: &UserId) -> Result<SessionEnded> {
    chat.sessions().end(user).await?;
    remove_all_devices(chat, user).await?;
    Ok(SessionEnded {
        user_id: user.clone(),
    })
}

/// Removes all devices of a user at once, as after a clean disconnect.
async fn remove_all_devices(chat: &Chat, user: &UserId) -> Result<()> {
    for device in chat.presence().devices(user).await? {
        chat.presence()
            .remove_device(user, &device.device_id)
            .await?;
    }
    Ok(())
}
