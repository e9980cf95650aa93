//! What callers can ask of sessions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::{Session, Status};
use crate::access::{Caller, Role};
use crate::chat::Chat;
use crate::code::Code;
use crate::error::{Error, Result};
use crate::ids::{DeviceId, UserId};
use crate::operation::{Creates, Info, Needs, Operation};

/// Most bytes of the reason for a block.
const MOST_REASON: usize = 256;

/// A session of the caller begins; an earlier one goes on as this one.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BeginSession {
    /// The device; `api` if none is named.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// Whose.
    pub user_id: UserId,
    /// The device that began it.
    pub device_id: DeviceId,
    /// What it allows.
    pub status: Status,
    /// When it began, in ISO 8601.
    pub login_time: String,
    /// When it was last used, give or take half a minute, in ISO 8601.
    pub last_seen: String,
    /// Where it began; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
}

impl From<Session> for SessionView {
    fn from(session: Session) -> Self {
        Self {
            user_id: session.user_id,
            device_id: session.device_id,
            status: session.status,
            login_time: session.login_time.iso(),
            last_seen: session.last_seen.iso(),
            ip_address: Some(session.ip_address).filter(|address| !address.is_empty()),
        }
    }
}

impl Operation for BeginSession {
    const INFO: Info = Info {
        name: "sessions.begin",
        summary: "Begins a session of the caller",
        codes: &[Code::InvalidId, Code::UserRequired],
    };
    const NEEDS: Needs = Needs::Token;
    const CREATES: Creates = Creates::Always;
    const CHANGES_ROWS: bool = true;
    type Reply = SessionView;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionView> {
        let session = chat.sessions().begin(caller, self.device_id.as_deref());
        Ok(session.await?.into())
    }
}

/// A visitor without an account comes in, where that is allowed: a new user, their token, their session.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({ "deviceId": "kiosk-7" }))]
pub struct BeginVisit {
    /// The device; `api` if none is named.
    #[serde(default)]
    #[schema(value_type = Option<DeviceId>)]
    pub device_id: Option<String>,
}

/// A visitor who came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Visit {
    /// What to show from now on, as a bearer token.
    pub token: String,
    /// The session.
    pub session: SessionView,
}

impl Operation for BeginVisit {
    const INFO: Info = Info {
        name: "sessions.visit",
        summary: "Begins a session of a visitor without an account",
        codes: &[Code::InvalidId, Code::Forbidden],
    };
    const NEEDS: Needs = Needs::Nothing;
    const CREATES: Creates = Creates::Always;
    const CHANGES_ROWS: bool = true;
    type Reply = Visit;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Visit> {
        let visit = chat.sessions().visit(caller, self.device_id.as_deref());
        let (token, session) = visit.await?;
        Ok(Visit {
            token,
            session: session.into(),
        })
    }
}

/// The caller's session.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct GetSession {}

impl Operation for GetSession {
    const INFO: Info = Info {
        name: "sessions.get",
        summary: "The caller's session",
        codes: &[Code::UserRequired],
    };
    type Reply = SessionView;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionView> {
        Ok(chat.sessions().session(caller.user()?).await?.into())
    }
}

/// The caller's session ends: their devices go, and tokens issued up to now open no other.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
pub struct EndSession {}

/// A session that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEnded {
    /// Whose.
    pub user_id: UserId,
}

impl Operation for EndSession {
    const INFO: Info = Info {
        name: "sessions.end",
        summary: "Ends the caller's session, and their tokens up to now",
        codes: &[Code::UserRequired],
    };
    const NEEDS: Needs = Needs::Token;
    const CHANGES_ROWS: bool = true;
    type Reply = SessionEnded;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionEnded> {
        ended(chat, caller.user()?).await
    }
}

/// A user's session: for admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetOtherSession {
    /// Whose.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

const ADMINISTERS: &[Code] = &[Code::InvalidId, Code::Forbidden, Code::NotFound];

impl Operation for GetOtherSession {
    const INFO: Info = Info {
        name: "sessions.admin.get",
        summary: "A user's session",
        codes: ADMINISTERS,
    };
    type Reply = SessionView;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionView> {
        let user = administered(caller, &self.user_id)?;
        found(&user, chat.sessions().session(&user).await)
    }
}

/// Blocks a user or lets them in again: for admins and services.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSession {
    /// Whose.
    #[serde(default)]
    #[schema(value_type = UserId)]
    pub user_id: String,
    /// `blocked`, or `login` for no longer.
    pub status: Status,
    /// Why, for the record.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for ChangeSession {
    const INFO: Info = Info {
        name: "sessions.admin.change",
        summary: "Blocks a user at once, or lets them in again",
        codes: ADMINISTERS,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = SessionView;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionView> {
        let user = administered(caller, &self.user_id)?;
        let reason = self.reason.as_deref();
        if reason.is_some_and(|it| it.len() > MOST_REASON || it.contains('\0')) {
            let text = format!("`reason` has a NUL or more than {MOST_REASON} bytes");
            return Err(Error::InvalidRequest(text));
        }
        match self.status {
            Status::Blocked => {
                let blocked = chat.sessions().block(&user, reason).await?;
                gone(chat, &user).await?;
                Ok(blocked.into())
            }
            Status::Login => found(&user, chat.sessions().unblock(&user).await),
            Status::Anonymous => Err(Error::InvalidRequest(
                "`status` can be set to `blocked` or `login`".into(),
            )),
        }
    }
}

/// A user's session ends, and their tokens up to now: for admins and services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndOtherSession {
    /// Whose.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

impl Operation for EndOtherSession {
    const INFO: Info = Info {
        name: "sessions.admin.end",
        summary: "Ends a user's session, and their tokens up to now",
        codes: ADMINISTERS,
    };
    const CHANGES_ROWS: bool = true;
    type Reply = SessionEnded;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<SessionEnded> {
        ended(chat, &administered(caller, &self.user_id)?).await
    }
}

/// Whether a user may come in: for other services.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidateSession {
    /// Who.
    #[schema(value_type = UserId)]
    pub user_id: String,
}

/// Whether a user may come in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validity {
    /// Whether there is a session that is not blocked.
    pub valid: bool,
    /// The session, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
}

impl Operation for ValidateSession {
    const INFO: Info = Info {
        name: "sessions.validate",
        summary: "Whether a user has a session that is not blocked",
        codes: ADMINISTERS,
    };
    type Reply = Validity;

    async fn run(self, chat: &Chat, caller: &Caller) -> Result<Validity> {
        let user = administered(caller, &self.user_id)?;
        match chat.sessions().session(&user).await {
            Ok(session) => Ok(Validity {
                valid: session.status != Status::Blocked,
                session: Some(session.into()),
            }),
            Err(Error::SessionExpired) => Ok(Validity {
                valid: false,
                session: None,
            }),
            Err(error) => Err(error),
        }
    }
}

/// The user of this id, whose session the caller may administer: never their own as a mere user.
fn administered(caller: &Caller, user: &str) -> Result<UserId> {
    let user = UserId::new(user)?;
    match caller.role {
        Role::Admin | Role::Service => Ok(user),
        Role::User => Err(Error::Forbidden(
            "sessions are administered by admins and services".into(),
        )),
    }
}

/// No session of somebody else is not the caller's to renew.
fn found(user: &UserId, session: Result<Session>) -> Result<SessionView> {
    match session {
        Err(Error::SessionExpired) => Err(Error::NotFound(format!("{user} has no session"))),
        session => Ok(session?.into()),
    }
}

async fn ended(chat: &Chat, user: &UserId) -> Result<SessionEnded> {
    chat.sessions().end(user).await?;
    gone(chat, user).await?;
    Ok(SessionEnded {
        user_id: user.clone(),
    })
}

/// Ends the presence of a user at once: this is a clean goodbye.
async fn gone(chat: &Chat, user: &UserId) -> Result<()> {
    for device in chat.presence().devices(user).await? {
        chat.presence().remove(user, &device.device_id).await?;
    }
    Ok(())
}
