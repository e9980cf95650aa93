//! Somebody comes to stay: a socket.

use super::Sessions;
use super::hub::{Attachment, Ended};
use super::session::{Session, Status, default_device};
use crate::access::{Caller, Role};
use crate::error::{Error, Result};
use crate::ids::DeviceId;

impl Sessions {
    /// A connection of the caller that lasts: the session goes on, or one begins, as with [`begin`](Self::begin). Nothing is
    /// written where the session is of this device already. `ended` is called with the reason when the connection has to
    /// go, perhaps before this returns; it is attached first and the session asked for then, so that no block in between is
    /// missed. A service needs no session, and is not told.
    pub async fn enter(
        &self,
        caller: Caller,
        device: Option<&DeviceId>,
        ended: Ended,
    ) -> Result<(Caller, Option<Attachment>)> {
        let user = caller.user()?.clone();
        if caller.role == Role::Service {
            return Ok((caller, None));
        }
        let device = device.cloned().unwrap_or_else(default_device);
        let attachment = self
            .hub
            .attach(&user, Some(&device), self.times(&caller), ended);
        self.distrust(&user);
        let caller = self.let_in(caller, &device).await?;
        // What was asked about the session before may have been before it began.
        attachment.entered();
        Ok((caller, Some(attachment)))
    }

    /// The caller as their session allows, which goes on or begins.
    async fn let_in(&self, caller: Caller, device: &DeviceId) -> Result<Caller> {
        let user = caller.user()?;
        let begun = match self.check_on(caller.clone(), Some(device)).await {
            Ok(caller) => {
                let known = self.known.get(user);
                if known.is_some_and(|known| known.device == *device) {
                    return Ok(caller);
                }
                match Box::pin(self.begin(&caller, Some(device.as_str()))).await {
                    // There is a session all the same.
                    Err(error) if error.is_away() => return Ok(caller),
                    begun => begun?,
                }
            }
            Err(Error::SessionExpired) => {
                Box::pin(self.begin(&caller, Some(device.as_str()))).await?
            }
            Err(error) => return Err(error),
        };
        Ok(allowed(caller, &begun))
    }
}

fn allowed(mut caller: Caller, session: &Session) -> Caller {
    caller.anonymous |= session.status == Status::Anonymous;
    caller
}
