//! Sessions begin, end, and are kept from beginning.

use super::Sessions;
use super::rows;
use super::session::{Reason, Session, Status, default_device};
use super::step::{Why, Wrote};
use crate::access::{Caller, Role};
use crate::error::{Error, Result};
use crate::ids::{DeviceId, UserId};

impl Sessions {
    /// A session begins for the caller, in the place of an earlier one.
    pub async fn begin(&self, caller: &Caller, device: Option<&str>) -> Result<Session> {
        let user = caller.user()?;
        let now = self.ctx.now();
        // A service vouches for its users now.
        let issued = match caller.role {
            Role::Service => now,
            Role::User | Role::Admin => {
                crate::context::Moment(caller.issued_at.unwrap_or_default())
            }
        };
        let device = device.map_or_else(|| Ok(default_device()), DeviceId::new)?;
        let session = Session {
            user_id: user.clone(),
            device_id: device,
            status: match caller.anonymous {
                true => Status::Anonymous,
                false => Status::Login,
            },
            login_time: now,
            last_seen: now,
            ip_address: caller.address.map_or(String::new(), |ip| ip.to_string()),
        };
        if !self.open(&session, issued).await? {
            let row = self.row(user).await?;
            return Err(match row.is_blocked() {
                true => Error::SessionBlocked,
                false => Error::SessionExpired,
            });
        }
        let row = self.row(user).await?;
        let wrote = self
            .write(user, &row, Some(&session), Why::Open(issued))
            .await;
        self.distrust(user);
        match wrote? {
            Wrote::Done(Some(before))
                if before != session.device_id && self.options.single_device =>
            {
                self.tell(user, Reason::Replaced, Some(&before)).await;
            }
            Wrote::Done(_) | Wrote::Again => {}
            Wrote::Blocked => return Err(Error::SessionBlocked),
            Wrote::Revoked => return Err(Error::SessionExpired),
        }
        Ok(session)
    }

    /// The user's session ends, and tokens issued up to now open no other.
    pub async fn end(&self, user: &UserId) -> Result<()> {
        let debt = self.owed.owe([user.clone()]);
        rows::end(&self.database, user, self.ctx.now()).await?;
        self.settle(user).await?;
        self.tell(user, Reason::Logout, None).await;
        debt.paid();
        Ok(())
    }

    /// Nobody comes in as this user any more.
    pub async fn block(&self, user: &UserId, reason: Option<&str>) -> Result<Session> {
        let debt = self.owed.owe([user.clone()]);
        rows::block(&self.database, user, self.ctx.now(), reason).await?;
        self.settle(user).await?;
        self.tell(user, Reason::Blocked, None).await;
        debt.paid();
        self.session(user).await
    }

    /// The user may come in again; the session from before goes on, if there was one.
    pub async fn unblock(&self, user: &UserId) -> Result<Session> {
        let debt = self.owed.owe([user.clone()]);
        rows::unblock(&self.database, user).await?;
        self.settle(user).await?;
        debt.paid();
        self.session(user).await
    }

    /// The session of a user, for those who may see it.
    pub async fn session(&self, user: &UserId) -> Result<Session> {
        match self.find(user, None, None).await {
            Err(error) if error.is_away() => {
                let row = self.row(user).await?;
                row.session(user, self.oldest())
                    .ok_or(Error::SessionExpired)
            }
            found => found,
        }
    }
}
