//! Sessions in the store that may not be what the rows say, because a step failed or was given up between them.
//!
//! Always true: whoever changes the rows owes the step from before the change until it is done. Beyond what can be kept only
//! the one who asked knows that it failed.

use super::session::Reason;
use super::{Sessions, Status};
use crate::error::Result;

impl Sessions {
    /// Does what failed or was given up before. To be called once a second.
    pub async fn pay(&self) -> Result<()> {
        let mut failed = Ok(());
        for user in self.owed.all() {
            self.owed.take(&user);
            let debt = self.owed.owe([user.clone()]);
            match self.settle(&user).await {
                Ok(session) => {
                    match session.map(|it| it.status) {
                        Some(Status::Blocked) => self.tell(&user, Reason::Blocked, None).await,
                        None => self.tell(&user, Reason::Logout, None).await,
                        Some(_) => {}
                    }
                    debt.paid();
                }
                Err(error) if error.is_away() => return Err(error),
                Err(error) => failed = Err(error),
            }
        }
        failed
    }
}
