//! The background work of unread counts.

use std::sync::Arc;
use std::time::Duration;

use super::rows;
use super::steps::{self, Step};
use super::{Unread, rows::MANY};
use crate::error::Result;
use crate::ids::UserId;
use crate::ticking::{Task, Ticking};

/// How often owed steps are paid.
const PAY: Duration = Duration::from_secs(1);
/// How often is looked what may be said of large conversations.
const ANNOUNCE: Duration = Duration::from_millis(250);
/// How often mutes that ended are looked for.
const SWEEP: Duration = Duration::from_secs(60);
/// Mutes in one step of the sweep.
const PAGE: u32 = 500;

impl Unread {
    /// Starts the background work.
    pub fn tick(self: &Arc<Self>) -> Ticking {
        Ticking::new(vec![
            Task::each(self, PAY, "write owed unread counts", |it| async move {
                it.pay().await
            }),
            Task::each(
                self,
                ANNOUNCE,
                "tell of large conversations",
                |it| async move { it.announce_due().await },
            ),
            Task::each(self, SWEEP, "end mutes", |it| async move {
                it.sweep_mutes().await.map(drop)
            }),
        ])
    }

    /// Does what failed or was given up before. To be called once a second.
    pub async fn pay(&self) -> Result<()> {
        loop {
            let users = self.owed.take_some(MANY);
            if users.is_empty() {
                return Ok(());
            }
            let debt = self.owed.owe(users.iter().cloned());
            self.recount_many(&users, None).await?;
            debt.paid();
        }
    }

    /// Adds conversations whose mute has ended to the totals; how many there were. To be called once a minute, on every
    /// node: it does no harm twice.
    pub async fn sweep_mutes(&self) -> Result<usize> {
        let mut swept = 0;
        loop {
            let now = self.ctx.now().ms();
            let ended = rows::ended_mutes(&self.database, now, PAGE).await?;
            // The keys first: a row that is forgotten is not found again.
            for position in ended.chunk_by(|a, b| a.conversation_id == b.conversation_id) {
                let steps: Vec<(&UserId, Step)> = position
                    .iter()
                    .map(|it| (&it.user_id, Step::from(it)))
                    .collect();
                let conversation = &position[0].conversation_id;
                let cold = steps::run(&self.ctx, conversation, &steps).await?;
                let cold: Vec<UserId> = cold.into_iter().cloned().collect();
                self.recount_many(&cold, Some(conversation)).await?;
            }
            rows::forget_mutes(&self.database, &ended).await?;
            swept += ended.len();
            if ended.len() < PAGE as usize {
                return Ok(swept);
            }
        }
    }
}
