//! Reading, marking unread, muting: the row first, then the keys.
//!
//! Always true: the row decides and is answered from. A store that is away delays the keys only.

use super::rows::{self, PositionWithTotal, ReceiptPosition};
use super::steps::CounterUpdate;
use super::{ReadReceipt, ReceiptKind, Unread, UnreadCount};
use crate::context::Timestamp;
use crate::delivery;
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::owed::RetryGuard;
use crate::ticking::log_failure;

impl Unread {
    /// The user has read up to a message, or up to the last one; what is left.
    pub async fn read(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: Option<u64>,
    ) -> Result<UnreadCount> {
        let debt = self.retry_queue.guard([user.clone()]);
        let last = seq.unwrap_or(u64::MAX);
        let reached = rows::mark_read(&self.database, conversation, user, last).await?;
        let badge = self.write_keys_from_row(user, conversation).await?;
        self.publish_receipt(user, conversation, reached, ReceiptKind::Read)
            .await;
        self.finish_mark(debt, badge)
    }

    /// The messages from this one on wait for the user again; what waits. Receipts stay.
    pub async fn mark_unread(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<UnreadCount> {
        let debt = self.retry_queue.guard([user.clone()]);
        rows::mark_unread(&self.database, conversation, user, seq).await?;
        let badge = self.write_keys_from_row(user, conversation).await?;
        self.finish_mark(debt, badge)
    }

    /// Messages have reached the user up to this one, or up to the last one; what waits.
    pub async fn delivered(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: Option<u64>,
    ) -> Result<UnreadCount> {
        let last = seq.unwrap_or(u64::MAX);
        let reached = rows::mark_delivered(&self.database, conversation, user, last).await?;
        let standing = self.position_and_total(user, conversation).await?;
        self.publish_receipt(user, conversation, reached, ReceiptKind::Delivered)
            .await;
        Ok(UnreadCount {
            unread: standing.position.unread_count(),
            total: standing.total,
        })
    }

    /// The conversation stays out of the user's total until then; none for no longer. What waits.
    pub async fn mute(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        until: Option<Timestamp>,
    ) -> Result<UnreadCount> {
        let debt = self.retry_queue.guard([user.clone()]);
        let until = until.map_or(0, Timestamp::as_millis);
        rows::set_mute(&self.database, conversation, user, until).await?;
        let badge = self.write_keys_from_row(user, conversation).await?;
        self.finish_mark(debt, badge)
    }

    async fn position_and_total(
        &self,
        user: &UserId,
        conversation: &ConversationId,
    ) -> Result<PositionWithTotal> {
        let now = self.ctx.now().as_millis();
        let found = rows::find_position_with_total(&self.database, conversation, user, now).await?;
        found.ok_or_else(|| Error::NotAMember(conversation.clone()))
    }

    /// What the row says now, and whether the keys show it. They are written also where the row did not change: a step
    /// before may have been lost.
    async fn write_keys_from_row(
        &self,
        user: &UserId,
        conversation: &ConversationId,
    ) -> Result<(UnreadCount, Result<()>)> {
        let standing = self.position_and_total(user, conversation).await?;
        let step = CounterUpdate::from(&standing.position);
        let shown = self
            .apply_updates(conversation, &[(user, step)], true)
            .await;
        let badge = UnreadCount {
            unread: standing.position.unread_count(),
            total: standing.total,
        };
        Ok((badge, shown))
    }

    fn finish_mark(
        &self,
        debt: RetryGuard<'_, UserId>,
        placed: (UnreadCount, Result<()>),
    ) -> Result<UnreadCount> {
        let (badge, shown) = placed;
        log_failure("update unread counts", &shown);
        if shown.is_ok() {
            debt.complete();
        }
        Ok(badge)
    }

    /// Tells the conversation how far a member has come.
    async fn publish_receipt(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        reached: Option<ReceiptPosition>,
        moved: ReceiptKind,
    ) {
        let Some(reached) = reached else {
            return;
        };
        let receipt = ReadReceipt {
            user_id: user.clone(),
            delivered_seq: reached.delivered_seq,
            read_seq: reached.read_seq,
        };
        let told_all = delivery::rise(&self.ctx, conversation, receipt, moved).await;
        log_failure("publish a receipt", &told_all);
    }
}
