//! Whether a caller has a session: asked before every operation.
//!
//! Always true: who was refused stays refused until something changes; who was let in is asked for again after a second.

use super::rows::{self, UserRow};
use super::session::{Session, Status};
use super::step::{Found, Why, Wrote};
use super::{FRESH, NOTE, RENEW, Sessions};
use crate::access::{Caller, Role};
use crate::context::Moment;
use crate::error::{Error, Result};
use crate::ids::{DeviceId, UserId};
use crate::ticking::told;

/// How often a session that somebody else changes at the same time is looked at again.
const LOOKS: usize = 5;

/// What a node knows of a user's session.
#[derive(Debug, Clone)]
pub(super) struct Known {
    status: Status,
    /// The device that began it.
    pub(super) device: DeviceId,
    /// When it was seen.
    at: Moment,
    /// When this node last renewed it, …
    renewed: Moment,
    /// … and noted it in the row.
    noted: Moment,
    /// Of which epoch of the store it is.
    epoch: u64,
    /// When the token was issued that was seen to be good.
    issued: Moment,
}

impl Known {
    /// A clock that was set back does not make it good for longer.
    fn is_fresh(&self, now: Moment) -> bool {
        self.at <= now && now < self.at.plus(FRESH)
    }
}

impl Sessions {
    /// The caller as the session allows, or why not. A service needs no session, neither for itself nor for those it
    /// acts for.
    pub async fn check(&self, caller: Caller) -> Result<Caller> {
        self.check_on(caller, None).await
    }

    /// The same for somebody on a device, whose name is not kept twice.
    pub(super) async fn check_on(
        &self,
        mut caller: Caller,
        device: Option<&DeviceId>,
    ) -> Result<Caller> {
        if caller.role == Role::Service {
            return Ok(caller);
        }
        let user = caller.user()?.clone();
        let issued = Moment(caller.issued_at.unwrap_or_default());
        let now = self.ctx.now();
        let epoch = self.ctx.store().current_epoch();
        let known = self.known.get(&user).filter(|known| known.epoch == epoch);
        let status = match &known {
            Some(known) if known.is_fresh(now) && issued >= known.issued => known.status,
            _ => {
                let mut seen = self
                    .fresh(&user, issued, now, known.as_ref(), epoch)
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
            Status::Login => {}
            Status::Anonymous => caller.anonymous = true,
            Status::Blocked => return Err(Error::SessionBlocked),
        }
        Ok(caller)
    }

    async fn fresh(
        &self,
        user: &UserId,
        issued: Moment,
        now: Moment,
        known: Option<&Known>,
        epoch: u64,
    ) -> Result<Known> {
        let renewed = known.map(|known| known.renewed);
        let renew = renewed.is_none_or(|last| last.plus(RENEW) <= now);
        let session = match self.find(user, Some(issued), renew.then_some(now)).await {
            Ok(session) => session,
            // The rows know as much.
            Err(error) if error.is_away() => self.find_in_rows(user, issued).await?,
            Err(error) => return Err(error),
        };
        // Who is not known here was noted when they were last seen, if they come often.
        let mut noted = known.map_or(session.last_seen, |known| known.noted);
        if noted.plus(NOTE) <= now {
            let seen = rows::seen(&self.database, user, now).await;
            told("note when a user was seen", &seen);
            // Who has a session is let in all the same, and noted the next time.
            noted = seen.map_or(noted, |()| now);
        }
        Ok(Known {
            status: session.status,
            device: session.device_id,
            at: now,
            renewed: renewed.filter(|_| !renew).unwrap_or(now),
            noted,
            epoch,
            issued,
        })
    }

    /// The session of a user. With `issued`, for a token of that time.
    pub(super) async fn find(
        &self,
        user: &UserId,
        issued: Option<Moment>,
        renew: Option<Moment>,
    ) -> Result<Session> {
        for _ in 0..LOOKS {
            match self.look(user, issued, renew).await? {
                Found::Here(session) => return Ok(session),
                Found::Revoked => return Err(Error::SessionExpired),
                Found::Gone => {
                    self.ended_by_others(user).await?;
                    return Err(Error::SessionExpired);
                }
                Found::Cold => {
                    let row = self.row(user).await?;
                    let session = row.session(user, self.oldest());
                    let wrote = self.write(user, &row, session.as_ref(), Why::Rebuild);
                    let wrote = wrote.await?;
                    // Nobody has come in between, and there is no row to be forgotten.
                    if matches!(wrote, Wrote::Done(_)) && session.is_none() && !row.has_session() {
                        return Err(Error::SessionExpired);
                    }
                    // Read once more: a block that only the hash knows may stand.
                }
            }
        }
        // Epochs or writers follow each other faster than it can be read.
        let row = self.row(user).await?;
        self.allowed(user, &row, issued)
    }

    async fn find_in_rows(&self, user: &UserId, issued: Moment) -> Result<Session> {
        let row = self.row(user).await?;
        self.allowed(user, &row, Some(issued))
    }

    fn allowed(&self, user: &UserId, row: &UserRow, issued: Option<Moment>) -> Result<Session> {
        let revoked = issued.is_some_and(|at| rows::seconds(at.ms()) <= row.revoked());
        match row.session(user, self.oldest()) {
            Some(session) if session.status == Status::Blocked || !revoked => Ok(session),
            _ => Err(Error::SessionExpired),
        }
    }

    /// Somebody deleted the hash, or its time was over: the row must not bring it back after a loss of the store.
    async fn ended_by_others(&self, user: &UserId) -> Result<()> {
        let row = self.row(user).await?;
        let Some(session) = row.session(user, Moment(0)) else {
            return Ok(());
        };
        // One that is being begun has its row before its hash.
        let begun = session.login_time.plus(RENEW) > self.ctx.now();
        if begun || session.status == Status::Blocked {
            return Ok(());
        }
        rows::forget(&self.database, user, session.login_time).await
    }

    /// What is remembered of a user is no longer so.
    pub(super) fn distrust(&self, user: &UserId) {
        self.known.remove(user);
    }

    /// Writes the session of a user as the rows say; what they say.
    pub(super) async fn settle(&self, user: &UserId) -> Result<Option<Session>> {
        let mut row = self.row(user).await?;
        for _ in 0..LOOKS {
            let session = row.session(user, self.oldest());
            let wrote = self.write(user, &row, session.as_ref(), Why::Set).await;
            self.distrust(user);
            wrote?;
            // Somebody else may have changed the rows since they were read and written before this: of those who do so at
            // once the last to write looks after all.
            let now = self.row(user).await?;
            if now == row {
                return Ok(session);
            }
            row = now;
        }
        Ok(row.session(user, self.oldest()))
    }
}
