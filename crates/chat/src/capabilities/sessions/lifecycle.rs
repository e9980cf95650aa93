//! Begins and ends sessions, blocks and unblocks users.

use super::Sessions;
use super::model::{SessionEndReason, SessionStatus, UserSession};
use super::reconcile::RowChange;
use super::session_key::{SessionWrite, SessionWriteResult};
use super::{adopted_rows, rows};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// Number of users that are read at a time to be unblocked.
const UNBLOCK_BATCH_SIZE: i64 = 500;

impl Sessions {
    /// Begins a session of the caller, which replaces an earlier one.
    pub async fn begin(&self, caller: &Caller, device: Option<&str>) -> Result<UserSession> {
        let user = caller.require_user()?;
        let now = self.ctx.now();
        // A service may begin a session for a user at any time, so its token counts as issued now.
        let issued = match caller.role {
            Role::Service => now,
            Role::User | Role::Admin => Timestamp(caller.issued_at.unwrap_or_default()),
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
        // Only needed if the hash cannot say which device was there before.
        let device_in_row = match self.options.single_device {
            true => self.load_row(user).await?.device(),
            false => None,
        };
        let inserted = self.insert_session_row(&session, issued).await?;
        let row = self.load_row(user).await?;
        if !inserted {
            return Err(match row.is_blocked() {
                true => Error::SessionBlocked,
                false => Error::TokenRevoked,
            });
        }
        let write = SessionWrite::Begin(&session, issued);
        let written = self.write_session_key(user, &row, write).await;
        self.invalidate_cache(user);
        let device_before = match written? {
            SessionWriteResult::Written(before) => before,
            SessionWriteResult::Foreign => device_in_row,
            SessionWriteResult::Conflict => None,
            SessionWriteResult::Blocked => return Err(Error::SessionBlocked),
            SessionWriteResult::BlockedElsewhere => {
                adopted_rows::adopt_block(&self.database, user, now).await?;
                return Err(Error::SessionBlocked);
            }
            SessionWriteResult::TokenRevoked => return Err(Error::TokenRevoked),
        };
        if let Some(before) = device_before.filter(|before| *before != session.device_id)
            && self.options.single_device
        {
            self.publish_session_end(user, SessionEndReason::Replaced, Some(&before))
                .await;
        }
        Ok(session)
    }

    /// Ends the session of a user and revokes all tokens issued until now.
    pub async fn end(&self, user: &UserId) -> Result<()> {
        let entry = rows::revoke_and_delete(&self.database, user, self.ctx.now()).await?;
        self.apply_row_change(
            entry,
            user,
            RowChange::Logout,
            Some(SessionEndReason::Logout),
        )
        .await
    }

    /// Blocks a user: every session ends, and no new one can begin.
    pub async fn block(&self, user: &UserId, reason: Option<&str>) -> Result<UserSession> {
        let entry = rows::block(&self.database, user, self.ctx.now(), reason).await?;
        self.apply_row_change(
            entry,
            user,
            RowChange::Other,
            Some(SessionEndReason::Blocked),
        )
        .await?;
        self.session(user).await
    }

    /// Unblocks a user. An earlier session continues, if there is one.
    pub async fn unblock(&self, user: &UserId) -> Result<UserSession> {
        // A block that is only in the hash is adopted first, so that it is lifted as well.
        let found = self.find_session(user, None, None).await;
        if !matches!(found, Err(Error::SessionExpired)) {
            log_failure("read the session of a user to unblock", &found);
        }
        let blocked_at = self.load_row(user).await?.blocked_at();
        let change = RowChange::Unblock(blocked_at);
        let entry = rows::unblock(&self.database, user, self.ctx.now(), change).await?;
        self.apply_row_change(entry, user, change, None).await?;
        self.session(user).await
    }

    /// The session of a user. The caller must be authorized to see it.
    pub async fn session(&self, user: &UserId) -> Result<UserSession> {
        match self.find_session(user, None, None).await {
            Err(error) if error.is_store_outage() => self.find_session_in_rows(user, None).await,
            found => found,
        }
    }

    /// Unblocks all users that other services have blocked. Returns their number.
    pub async fn unblock_adopted(&self) -> Result<u64> {
        let (mut unblocked, mut last) = (0, String::new());
        loop {
            let users =
                adopted_rows::find_adopted_blocks(&self.database, &last, UNBLOCK_BATCH_SIZE)
                    .await?;
            let Some(end) = users.last() else {
                return Ok(unblocked);
            };
            last.clone_from(end);
            for user in users {
                match self.unblock(&UserId::new(user)?).await {
                    Ok(_) | Err(Error::SessionExpired) => unblocked += 1,
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Number of users that other services have blocked.
    pub async fn count_adopted_blocks(&self) -> Result<u64> {
        adopted_rows::count_adopted_blocks(&self.database).await
    }
}
