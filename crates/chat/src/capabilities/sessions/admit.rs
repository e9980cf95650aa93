//! Admission of long-lived connections (sockets).

use std::sync::Arc;

use super::Sessions;
use super::connections::{ConnectionRegistration, SessionEndHandler};
use super::model::{SessionStatus, UserSession};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::ids::DeviceId;

impl Sessions {
    /// Admits a long-lived connection of the caller: continues the session, or begins one as with
    /// [`begin`](Self::begin). Nothing is written if the session already belongs to this device. `handler` is called with
    /// the reason when the connection must close, perhaps before this returns. The connection is registered before the
    /// session is checked, so that no block in between is missed. A service needs no session and is not notified.
    pub async fn admit_connection(
        &self,
        caller: Caller,
        device: Option<&DeviceId>,
        handler: Arc<dyn SessionEndHandler>,
    ) -> Result<(Caller, Option<ConnectionRegistration>)> {
        let user = caller.require_user()?.clone();
        if caller.role == Role::Service {
            return Ok((caller, None));
        }
        let device = device
            .cloned()
            .unwrap_or_else(DeviceId::default_for_requests);
        let registration = self.connections.register(
            &user,
            Some(&device),
            self.connection_times(&caller),
            handler,
        );
        self.invalidate_cache(&user);
        let caller = self.continue_or_begin_session(caller, &device).await?;
        // An earlier read of the session may have been before the session began.
        registration.mark_admitted();
        Ok((caller, Some(registration)))
    }

    /// Continues the caller's session or begins one, and applies it to the caller.
    async fn continue_or_begin_session(&self, caller: Caller, device: &DeviceId) -> Result<Caller> {
        let user = caller.require_user()?;
        let begun = match self
            .check_caller_on_device(caller.clone(), Some(device))
            .await
        {
            Ok(caller) => {
                let cached = self.cache.get(user);
                if cached.is_some_and(|cached| cached.device == *device) {
                    return Ok(caller);
                }
                match Box::pin(self.begin(&caller, Some(device.as_str()))).await {
                    // The caller has a session, only the store is unavailable or full.
                    Err(error) if error.is_store_outage() => return Ok(caller),
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
