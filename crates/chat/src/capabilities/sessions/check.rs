//! Checks the session of a caller before every operation.
//!
//! Invariant: a result is used for at most [`CACHE_DURATION`], then the session is read again. The absence of a session
//! is never cached.

use super::model::SessionStatus;
use super::rows;
use super::{CACHE_DURATION, LAST_SEEN_INTERVAL, RENEW_INTERVAL, Sessions};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// Cached result of a session check.
#[derive(Debug, Clone)]
pub(super) struct CachedSession {
    status: SessionStatus,
    /// Device that began the session.
    pub(super) device: DeviceId,
    /// Time of the check.
    checked_at: Timestamp,
    /// Time at which this node last renewed the session hash.
    renewed_at: Timestamp,
    /// Time at which `last_seen` was last saved in the row.
    last_seen_saved_at: Timestamp,
    /// Store epoch of the check.
    store_epoch: u64,
    /// Time at which the checked token was issued. Tokens that are older need a check of their own.
    token_issued_at: Timestamp,
}

impl CachedSession {
    /// A clock that jumps back must not extend the period.
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.checked_at <= now && now < self.checked_at.saturating_add(CACHE_DURATION)
    }
}

impl Sessions {
    /// Checks the session of the caller and applies it to the caller. A service needs no session, neither for itself
    /// nor for the users it acts for.
    pub async fn check(&self, caller: Caller) -> Result<Caller> {
        self.check_caller_on_device(caller, None).await
    }

    /// As [`check`](Self::check), for a cached device. The cache then shares the device id instead of a
    /// copy.
    pub(super) async fn check_caller_on_device(
        &self,
        mut caller: Caller,
        device: Option<&DeviceId>,
    ) -> Result<Caller> {
        if caller.role == Role::Service {
            return Ok(caller);
        }
        let user = caller.require_user()?.clone();
        let issued = Timestamp(caller.issued_at.unwrap_or_default());
        let now = self.ctx.now();
        let epoch = self.ctx.store_epoch();
        let cached = self
            .cache
            .get(&user)
            .filter(|cached| cached.store_epoch == epoch);
        let status = match &cached {
            Some(cached) if cached.is_fresh(now) && issued >= cached.token_issued_at => {
                cached.status
            }
            _ => {
                let mut checked = self
                    .load_and_renew(&user, issued, now, cached.as_ref(), epoch)
                    .await?;
                if let Some(device) = device.filter(|it| **it == checked.device) {
                    checked.device = device.clone();
                }
                let status = checked.status;
                self.cache.insert(user, checked);
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
        cached: Option<&CachedSession>,
        epoch: u64,
    ) -> Result<CachedSession> {
        let renewed = cached.map(|cached| cached.renewed_at);
        let renew = renewed.is_none_or(|last| last.saturating_add(RENEW_INTERVAL) <= now);
        let session = match self
            .find_session(user, Some(issued), renew.then_some(now))
            .await
        {
            Ok(session) => session,
            // The rows contain the same session.
            Err(error) if error.is_store_outage() => {
                self.find_session_in_rows(user, Some(issued)).await?
            }
            Err(error) => return Err(error),
        };
        // For a session that is not cached, the `last_seen` before this check stands for the last save: nodes save it
        // regularly while the session is in use.
        let mut saved_at = cached.map_or(session.last_seen, |cached| cached.last_seen_saved_at);
        if saved_at.saturating_add(LAST_SEEN_INTERVAL) <= now {
            let saved = rows::update_last_seen(&self.database, user, now).await;
            log_failure("update last_seen of a session", &saved);
            // A failed save does not reject the caller; the next check tries again.
            saved_at = saved.map_or(saved_at, |()| now);
        }
        Ok(CachedSession {
            status: session.status,
            device: session.device_id,
            checked_at: now,
            renewed_at: renewed.filter(|_| !renew).unwrap_or(now),
            last_seen_saved_at: saved_at,
            store_epoch: epoch,
            token_issued_at: issued,
        })
    }

    /// Removes a user from the cache.
    pub(super) fn invalidate_cache(&self, user: &UserId) {
        self.cache.remove(user);
    }
}
