//! Mark read, mark unread, mark delivered, mute.
//!
//! Invariant: the row is changed first, and the reply comes from the database. While the store is unavailable, only the
//! keys are late.

use super::rows::{self, PositionWithTotal, ReceiptPosition};
use super::update::CounterUpdate;
use super::{ReadReceipt, ReceiptKind, Unread, UnreadCount};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::Timestamp;
use crate::delivery;
use crate::ids::{ConversationId, UserId};
use crate::retry_queue::RetryGuard;

impl Unread {
    /// Marks messages as read up to a message, or up to the last one. Returns the unread count after that.
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

    /// Marks the messages from this one on as unread. Receipts do not change. Returns the unread count after that.
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

    /// Marks messages as delivered up to a message, or up to the last one. Returns the unread count.
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

    /// Excludes the conversation from the user's total until this time, `None` to end the mute. Returns the unread
    /// count.
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

    /// Writes the keys from the current row, also if the row did not change: an earlier update may have been lost.
    /// Returns the unread count and the result of the key update.
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

    /// Publishes a receipt to the conversation.
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
