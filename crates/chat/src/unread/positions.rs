//! Reading, marking unread, muting: the row first, then the keys.
//!
//! Always true: the row decides and is answered from. A store that is away delays the keys only.

use super::rows::{self, Reached, Standing};
use super::steps::Step;
use super::{Badge, Moved, Receipt, Unread};
use crate::context::Moment;
use crate::delivery;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::owed::Debt;
use crate::ticking::told;

impl Unread {
    /// The user has read up to a message, or up to the last one; what is left.
    pub async fn read(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: Option<u64>,
    ) -> Result<Badge> {
        let debt = self.owed.owe([user.clone()]);
        let last = seq.unwrap_or(u64::MAX);
        let reached = rows::read(&self.database, conversation, user, last).await?;
        let badge = self.placed(user, conversation).await?;
        self.tell(user, conversation, reached, Moved::Read).await;
        self.kept(debt, badge)
    }

    /// The messages from this one on wait for the user again; what waits. Receipts stay.
    pub async fn mark_unread(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<Badge> {
        let debt = self.owed.owe([user.clone()]);
        rows::unread(&self.database, conversation, user, seq).await?;
        let badge = self.placed(user, conversation).await?;
        self.kept(debt, badge)
    }

    /// Messages have reached the user up to this one, or up to the last one; what waits.
    pub async fn delivered(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: Option<u64>,
    ) -> Result<Badge> {
        let last = seq.unwrap_or(u64::MAX);
        let reached = rows::delivered(&self.database, conversation, user, last).await?;
        let standing = self.standing(user, conversation).await?;
        self.tell(user, conversation, reached, Moved::Delivered)
            .await;
        Ok(Badge {
            unread: standing.position.count(),
            total: standing.total,
        })
    }

    /// The conversation stays out of the user's total until then; none for no longer. What waits.
    pub async fn mute(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        until: Option<Moment>,
    ) -> Result<Badge> {
        let debt = self.owed.owe([user.clone()]);
        let until = until.map_or(0, Moment::ms);
        rows::mute(&self.database, conversation, user, until).await?;
        let badge = self.placed(user, conversation).await?;
        self.kept(debt, badge)
    }

    async fn standing(&self, user: &UserId, conversation: &ConversationId) -> Result<Standing> {
        let now = self.ctx.now().ms();
        let found = rows::standing(&self.database, conversation, user, now).await?;
        found.ok_or_else(|| Error::NotAMember(conversation.clone()))
    }

    /// What the row says now, and whether the keys show it. They are written also where the row did not change: a step
    /// before may have been lost.
    async fn placed(
        &self,
        user: &UserId,
        conversation: &ConversationId,
    ) -> Result<(Badge, Result<()>)> {
        let standing = self.standing(user, conversation).await?;
        let step = Step::from(&standing.position);
        let shown = self.apply(conversation, &[(user, step)], true).await;
        let badge = Badge {
            unread: standing.position.count(),
            total: standing.total,
        };
        Ok((badge, shown))
    }

    fn kept(&self, debt: Debt<'_, UserId>, placed: (Badge, Result<()>)) -> Result<Badge> {
        let (badge, shown) = placed;
        told("write unread counts", &shown);
        if shown.is_ok() {
            debt.paid();
        }
        Ok(badge)
    }

    /// Tells the conversation how far a member has come.
    async fn tell(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        reached: Option<Reached>,
        moved: Moved,
    ) {
        let Some(reached) = reached else {
            return;
        };
        let receipt = Receipt {
            user_id: user.clone(),
            delivered_seq: reached.delivered_seq,
            read_seq: reached.read_seq,
        };
        let told_all = delivery::rise(&self.ctx, conversation, receipt, moved).await;
        told("tell a receipt", &told_all);
    }
}
