//! Begins and ends sessions, blocks and unblocks users.

use super::Sessions;
use super::model::{SessionEndReason, SessionStatus, UserSession};
use super::rows;
use super::session_key::{SessionWrite, SessionWriteResult};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::ids::{DeviceId, UserId};

impl Sessions {
    /// Begins a session of the caller, which replaces an earlier one.
    pub async fn begin(&self, caller: &Caller, device: Option<&str>) -> Result<UserSession> {
        let user = caller.require_user()?;
        let now = self.ctx.now();
        // A service may begin a session for a user at any time, so its token counts as issued now.
        let issued = match caller.role {
            Role::Service => now,
            Role::User | Role::Admin => {
                crate::clock::Timestamp(caller.issued_at.unwrap_or_default())
            }
        };
        let device = device.map_or_else(|| Ok(DeviceId::default_for_requests()), DeviceId::new)?;
        let session = UserSession {
            user_id: user.clone(),
            device_id: device,
            status: match caller.anonymous {
                true => SessionStatus::Anonymous,
                false => SessionStatus::Login,
            },
            login_time: now,
            last_seen: now,
            ip_address: caller.ip_address.map_or(String::new(), |ip| ip.to_string()),
        };
        if !self.insert_session_row(&session, issued).await? {
            let row = self.load_row(user).await?;
            return Err(match row.is_blocked() {
                true => Error::SessionBlocked,
                false => Error::SessionExpired,
            });
        }
        let row = self.load_row(user).await?;
        let wrote = self
            .write_session_key(user, &row, Some(&session), SessionWrite::Begin(issued))
            .await;
        self.invalidate_cache(user);
        match wrote? {
            SessionWriteResult::Written(Some(before))
                if before != session.device_id && self.options.single_device =>
            {
                self.publish_session_end(user, SessionEndReason::Replaced, Some(&before))
                    .await;
            }
            SessionWriteResult::Written(_) | SessionWriteResult::Conflict => {}
            SessionWriteResult::Blocked => return Err(Error::SessionBlocked),
            SessionWriteResult::TokenRevoked => return Err(Error::SessionExpired),
        }
        Ok(session)
    }

    /// Ends the session of a user and revokes all tokens issued until now.
    pub async fn end(&self, user: &UserId) -> Result<()> {
        let guard = self.retry_queue.guard([user.clone()]);
        rows::revoke_and_delete(&self.database, user, self.ctx.now()).await?;
        self.sync_from_rows(user).await?;
        self.publish_session_end(user, SessionEndReason::Logout, None)
            .await;
        guard.complete();
        Ok(())
    }

    /// Blocks a user: every session ends, and no new one can begin.
    pub async fn block(&self, user: &UserId, reason: Option<&str>) -> Result<UserSession> {
        let guard = self.retry_queue.guard([user.clone()]);
        rows::block(&self.database, user, self.ctx.now(), reason).await?;
        self.sync_from_rows(user).await?;
        self.publish_session_end(user, SessionEndReason::Blocked, None)
            .await;
        guard.complete();
        self.session(user).await
    }

    /// Unblocks a user. An earlier session continues, if there is one.
    pub async fn unblock(&self, user: &UserId) -> Result<UserSession> {
        let guard = self.retry_queue.guard([user.clone()]);
        rows::unblock(&self.database, user).await?;
        self.sync_from_rows(user).await?;
        guard.complete();
        self.session(user).await
    }

    /// The session of a user. The caller must be authorized to see it.
    pub async fn session(&self, user: &UserId) -> Result<UserSession> {
        match self.find_session(user, None, None).await {
            Err(error) if error.is_store_unavailable() => {
                self.find_session_in_rows(user, None).await
            }
            found => found,
        }
    }
}
