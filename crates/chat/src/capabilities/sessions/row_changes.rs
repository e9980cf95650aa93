//! Applies changes of the rows of a session: writes the hash, then notifies the nodes.
//!
//! Invariant: an outbox entry exists from the commit of the rows until the hash is written and the nodes are notified. A
//! late application compares the hash with the present rows, so it never ends a session that began later.

use serde::{Deserialize, Serialize};

use super::Sessions;
use super::end_events::end_reason;
use super::model::SessionEndReason;
use super::reconcile::RowChange;
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::failpoint::failpoint;
use crate::ids::UserId;
use crate::outbox::{OutboxEntry, OutboxHandler, OutboxPayload};

/// Entry of the outbox: the rows of this user were changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangedSession {
    user: UserId,
    /// The change lifted a block, which began at this time in ms, if it had begun.
    lifted: Option<Option<u64>>,
}

impl ChangedSession {
    pub(super) fn new(user: &UserId, change: RowChange) -> Self {
        Self {
            user: user.clone(),
            lifted: match change {
                RowChange::Unblock(began) => Some(began.map(Timestamp::as_millis)),
                RowChange::Logout | RowChange::Other => None,
            },
        }
    }
}

impl OutboxPayload for ChangedSession {
    const KIND: &'static str = "session_changed";

    fn subject(&self) -> String {
        format!("user:{}", self.user)
    }
}

impl OutboxHandler<ChangedSession> for Sessions {
    async fn apply(&self, changed: ChangedSession) -> Result<()> {
        let change = match changed.lifted {
            Some(began) => RowChange::Unblock(began.map(Timestamp)),
            // After a logout, too: a session that another service has begun meanwhile continues.
            None => RowChange::Other,
        };
        let session = self.sync_from_rows(&changed.user, change).await?;
        if let Some(reason) = end_reason(session.as_ref()) {
            self.publish_session_end(&changed.user, reason, None).await;
        }
        Ok(())
    }
}

impl Sessions {
    /// Writes the hash after a committed change of the rows, and notifies the nodes if the session has ended. If the
    /// store does not accept the hash, the call fails, and the outbox repeats it.
    pub(super) async fn apply_row_change(
        &self,
        entry: OutboxEntry,
        user: &UserId,
        change: RowChange,
        ended: Option<SessionEndReason>,
    ) -> Result<()> {
        failpoint!(self.ctx, "session.committed");
        let synced = self.sync_from_rows(user, change).await;
        synced.map_err(|error| Error::CommittedNotPublished(Box::new(error)))?;
        failpoint!(self.ctx, "session.written");
        if let Some(reason) = ended {
            self.publish_session_end(user, reason, None).await;
        }
        failpoint!(self.ctx, "session.published");
        entry.acknowledge(&self.database);
        Ok(())
    }
}
