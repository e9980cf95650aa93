//! Somebody comes to stay: a socket.

use super::Sessions;
use super::hub::{ConnectionRegistration, Ended};
use super::session::{SessionStatus, UserSession, default_device_id};
use crate::access::{Caller, Role};
use crate::error::{Error, Result};
use crate::ids::DeviceId;

impl Sessions {
    /// A connection of the caller that lasts: the session goes on, or one begins, as with [`begin`](Self::begin). Nothing is
    /// written where the session is of this device already. `ended` is called with the reason when the connection has to
    /// go, perhaps before this returns; it is attached first and the session asked for then, so that no block in between is
    /// missed. A service needs no session, and is not told.
    pub async fn admit_connection(
        &self,
        caller: Caller,
        device: Option<&DeviceId>,
        ended: Ended,
    ) -> Result<(Caller, Option<ConnectionRegistration>)> {
        let user = caller.user()?.clone();
        if caller.role == Role::Service {
            return Ok((caller, None));
        }
        let device = device.cloned().unwrap_or_else(default_device_id);
        let attachment =
            self.hub
                .register(&user, Some(&device), self.connection_times(&caller), ended);
        self.invalidate_cache(&user);
        let caller = self.continue_or_begin_session(caller, &device).await?;
        // What was asked about the session before may have been before it began.
        attachment.mark_admitted();
        Ok((caller, Some(attachment)))
    }

    /// The caller as their session allows, which goes on or begins.
    async fn continue_or_begin_session(&self, caller: Caller, device: &DeviceId) -> Result<Caller> {
        let user = caller.user()?;
        let begun = match self
            .check_caller_on_device(caller.clone(), Some(device))
            .await
        {
            Ok(caller) => {
                let known = self.known.get(user);
                if known.is_some_and(|known| known.device == *device) {
                    return Ok(caller);
                }
                match Box::pin(self.begin(&caller, Some(device.as_str()))).await {
                    // There is a session all the same.
                    Err(error) if error.is_store_unavailable() => return Ok(caller),
                    begun => begun?,
                }
            }
            Err(Error::SessionExpired) => {
                Box::pin(self.begin(&caller, Some(device.as_str()))).await?
            }
            Err(error) => return Err(error),
        };
        Ok(apply_session(caller, &begun))
    }
}

fn apply_session(mut caller: Caller, session: &UserSession) -> Caller {
    caller.anonymous |= session.status == SessionStatus::Anonymous;
    caller
}
