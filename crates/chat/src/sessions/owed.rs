//! Users whose session in the store may not be what the rows say, because a step failed or was given up between them.
//!
//! Always true: whoever changes the rows owes the step from before the change until it is done. What is still owed when the
//! change is given up is kept here until somebody pays it.

use std::collections::HashSet;

use parking_lot::Mutex;

use super::session::Reason;
use super::{Sessions, Status};
use crate::error::Result;
use crate::ids::UserId;

/// Users who are remembered. Beyond them only the one who asked knows that it failed.
const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct Owed(Mutex<HashSet<UserId>>);

/// What somebody is about to do for a user.
#[must_use = "it is kept when it is dropped"]
pub(super) struct Debt<'o> {
    owed: &'o Owed,
    user: Option<UserId>,
}

impl Owed {
    /// This user is owed a step until [`Debt::paid`].
    pub(super) fn owe(&self, user: &UserId) -> Debt<'_> {
        Debt {
            owed: self,
            user: Some(user.clone()),
        }
    }

    fn all(&self) -> Vec<UserId> {
        self.0.lock().iter().cloned().collect()
    }
}

impl Debt<'_> {
    /// Done.
    pub(super) fn paid(mut self) {
        self.user = None;
    }
}

impl Drop for Debt<'_> {
    fn drop(&mut self) {
        let Some(user) = self.user.take() else {
            return;
        };
        let mut owed = self.owed.0.lock();
        if owed.len() < MOST {
            owed.insert(user);
        }
    }
}

impl Sessions {
    /// Does what failed or was given up before. To be called once a second.
    pub async fn pay(&self) -> Result<()> {
        let mut failed = Ok(());
        for user in self.owed.all() {
            self.owed.0.lock().remove(&user);
            let debt = self.owed.owe(&user);
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
