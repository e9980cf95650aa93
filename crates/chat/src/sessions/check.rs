//! Whether a caller has a session: asked before every operation.
//!
//! Always true: who was refused stays refused until something changes; who was let in is asked for again after a second.

use super::rows::{self, UserSessionRow};
use super::session::{SessionStatus, UserSession};
use super::step::{SessionWrite, SessionWriteResult, StoredSession};
use super::{CACHE_DURATION, LAST_SEEN_INTERVAL, RENEW_INTERVAL, Sessions};
use crate::access::{Caller, Role};
use crate::context::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{DeviceId, UserId};
use crate::ticking::log_failure;

/// How often a session that somebody else changes at the same time is looked at again.
const MAX_ATTEMPTS: usize = 5;

/// What a node knows of a user's session.
#[derive(Debug, Clone)]
pub(super) struct CachedSession {
    status: SessionStatus,
    /// The device that began it.
    pub(super) device: DeviceId,
    /// When it was seen.
    checked_at: Timestamp,
    /// When this node last renewed it, …
    renewed_at: Timestamp,
    /// … and noted it in the row.
    last_seen_saved_at: Timestamp,
    /// Of which epoch of the store it is.
    store_epoch: u64,
    /// When the token was issued that was seen to be good.
    token_issued_at: Timestamp,
}

impl CachedSession {
    /// A clock that was set back does not make it good for longer.
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.checked_at <= now && now < self.checked_at.saturating_add(CACHE_DURATION)
    }
}

impl Sessions {
    /// The caller as the session allows, or why not. A service needs no session, neither for itself nor for those it
    /// acts for.
    pub async fn check(&self, caller: Caller) -> Result<Caller> {
        self.check_caller_on_device(caller, None).await
    }

    /// The same for somebody on a device, whose name is not kept twice.
    pub(super) async fn check_caller_on_device(
        &self,
        mut caller: Caller,
        device: Option<&DeviceId>,
    ) -> Result<Caller> {
        if caller.role == Role::Service {
            return Ok(caller);
        }
        let user = caller.user()?.clone();
        let issued = Timestamp(caller.issued_at.unwrap_or_default());
        let now = self.ctx.now();
        let epoch = self.ctx.store().current_epoch();
        let known = self
            .known
            .get(&user)
            .filter(|known| known.store_epoch == epoch);
        let status = match &known {
            Some(known) if known.is_fresh(now) && issued >= known.token_issued_at => known.status,
            _ => {
                let mut seen = self
                    .load_and_renew(&user, issued, now, known.as_ref(), epoch)
                    .await?;
                if let Some(device) = device.filter(|it| **it == seen.device) {
                    seen.device = device.clone();
                }
                let status = seen.status;
                self.known.insert(user, seen);
                status
            }
        };
        match status {
            SessionStatus::Login => {}
            SessionStatus::Anonymous => caller.anonymous = true,
            SessionStatus::Blocked => return Err(Error::SessionBlocked),
        }
        Ok(caller)
    }

    async fn load_and_renew(
        &self,
        user: &UserId,
        issued: Timestamp,
        now: Timestamp,
        known: Option<&CachedSession>,
        epoch: u64,
    ) -> Result<CachedSession> {
        let renewed = known.map(|known| known.renewed_at);
        let renew = renewed.is_none_or(|last| last.saturating_add(RENEW_INTERVAL) <= now);
        let session = match self.find(user, Some(issued), renew.then_some(now)).await {
            Ok(session) => session,
            // The rows know as much.
            Err(error) if error.is_store_unavailable() => {
                self.find_session_in_rows(user, issued).await?
            }
            Err(error) => return Err(error),
        };
        // Who is not known here was noted when they were last seen, if they come often.
        let mut noted = known.map_or(session.last_seen, |known| known.last_seen_saved_at);
        if noted.saturating_add(LAST_SEEN_INTERVAL) <= now {
            let seen = rows::update_last_seen(&self.database, user, now).await;
            log_failure("update last_seen of a session", &seen);
            // Who has a session is let in all the same, and noted the next time.
            noted = seen.map_or(noted, |()| now);
        }
        Ok(CachedSession {
            status: session.status,
            device: session.device_id,
            checked_at: now,
            renewed_at: renewed.filter(|_| !renew).unwrap_or(now),
            last_seen_saved_at: noted,
            store_epoch: epoch,
            token_issued_at: issued,
        })
    }

    /// The session of a user. With `issued`, for a token of that time.
    pub(super) async fn find(
        &self,
        user: &UserId,
        issued: Option<Timestamp>,
        renew: Option<Timestamp>,
    ) -> Result<UserSession> {
        for _ in 0..MAX_ATTEMPTS {
            match self.read_session_key(user, issued, renew).await? {
                StoredSession::Present(session) => return Ok(session),
                StoredSession::TokenRevoked => return Err(Error::SessionExpired),
                StoredSession::Missing => {
                    self.delete_row_after_external_logout(user).await?;
                    return Err(Error::SessionExpired);
                }
                StoredSession::Unverified => {
                    let row = self.row(user).await?;
                    let session = row.session(user, self.expiry_cutoff());
                    let wrote =
                        self.write_session_key(user, &row, session.as_ref(), SessionWrite::Rebuild);
                    let wrote = wrote.await?;
                    // Nobody has come in between, and there is no row to be forgotten.
                    if matches!(wrote, SessionWriteResult::Written(_))
                        && session.is_none()
                        && !row.has_session()
                    {
                        return Err(Error::SessionExpired);
                    }
                    // Read once more: a block that only the hash knows may stand.
                }
            }
        }
        // Epochs or writers follow each other faster than it can be read.
        let row = self.row(user).await?;
        self.session_for_token(user, &row, issued)
    }

    async fn find_session_in_rows(&self, user: &UserId, issued: Timestamp) -> Result<UserSession> {
        let row = self.row(user).await?;
        self.session_for_token(user, &row, Some(issued))
    }

    fn session_for_token(
        &self,
        user: &UserId,
        row: &UserSessionRow,
        issued: Option<Timestamp>,
    ) -> Result<UserSession> {
        let revoked = issued.is_some_and(|at| {
            rows::to_unix_seconds(at.as_millis()) <= row.revoked_before_seconds()
        });
        match row.session(user, self.expiry_cutoff()) {
            Some(session) if session.status == SessionStatus::Blocked || !revoked => Ok(session),
            _ => Err(Error::SessionExpired),
        }
    }

    /// Somebody deleted the hash, or its time was over: the row must not bring it back after a loss of the store.
    async fn delete_row_after_external_logout(&self, user: &UserId) -> Result<()> {
        let row = self.row(user).await?;
        let Some(session) = row.session(user, Timestamp(0)) else {
            return Ok(());
        };
        // One that is being begun has its row before its hash.
        let begun = session.login_time.saturating_add(RENEW_INTERVAL) > self.ctx.now();
        if begun || session.status == SessionStatus::Blocked {
            return Ok(());
        }
        rows::delete_session_begun_at(&self.database, user, session.login_time).await
    }

    /// What is remembered of a user is no longer so.
    pub(super) fn invalidate_cache(&self, user: &UserId) {
        self.known.remove(user);
    }

    /// Writes the session of a user as the rows say; what they say.
    pub(super) async fn sync_from_rows(&self, user: &UserId) -> Result<Option<UserSession>> {
        let mut row = self.row(user).await?;
        for _ in 0..MAX_ATTEMPTS {
            let session = row.session(user, self.expiry_cutoff());
            let wrote = self
                .write_session_key(user, &row, session.as_ref(), SessionWrite::Overwrite)
                .await;
            self.invalidate_cache(user);
            wrote?;
            // Somebody else may have changed the rows since they were read and written before this: of those who do so at
            // once the last to write looks after all.
            let now = self.row(user).await?;
            if now == row {
                return Ok(session);
            }
            row = now;
        }
        Ok(row.session(user, self.expiry_cutoff()))
    }
}
