//! Mark read, mark unread, mark delivered, mute.
//!
//! Invariants:
//! 1. The row is changed first, together with an outbox entry, and the reply comes from the database. While the store is
//!    unavailable, only the keys are late.

use super::rows::{self, PositionWithTotal};
use super::update::CounterUpdate;
use super::{MarkedPosition, ReceiptKind, Unread, UnreadCount};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::clock::Timestamp;
use crate::failpoint::failpoint;
use crate::ids::{ConversationId, UserId};
use crate::outbox::OutboxEntry;

impl Unread {
    /// Marks messages as read up to a message, or up to the last one. Returns the unread count after that.
    pub async fn read(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: Option<u64>,
    ) -> Result<UnreadCount> {
        let last = seq.unwrap_or(u64::MAX);
        let (marked, now) = (marked_position(user, conversation), self.ctx.now());
        let read = rows::mark_read(&self.database, now, &marked, last).await?;
        failpoint!(self.ctx, "position.committed");
        let written = self.write_keys_from_row(user, conversation).await?;
        let (position, entry) = read.unzip();
        self.publish_receipt(user, conversation, position, ReceiptKind::Read)
            .await;
        failpoint!(self.ctx, "position.written");
        Ok(self.finish_mark(entry, written))
    }

    /// Marks the messages from this one on as unread. Receipts do not change. Returns the unread count after that.
    pub async fn mark_unread(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<UnreadCount> {
        let (marked, now) = (marked_position(user, conversation), self.ctx.now());
        let entry = rows::mark_unread(&self.database, now, &marked, seq).await?;
        let written = self.write_keys_from_row(user, conversation).await?;
        Ok(self.finish_mark(entry, written))
    }

    /// Marks messages as delivered up to a message, or up to the last one. Returns the unread count.
    pub async fn delivered(
        &self,
        user: &UserId,
        conversation: &ConversationId,
        seq: Option<u64>,
    ) -> Result<UnreadCount> {
        let last = seq.unwrap_or(u64::MAX);
        let position = rows::mark_delivered(&self.database, conversation, user, last).await?;
        let row = self.position_and_total(user, conversation).await?;
        self.publish_receipt(user, conversation, position, ReceiptKind::Delivered)
            .await;
        Ok(UnreadCount {
            unread: row.position.unread_count(),
            total: row.total,
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
        let (marked, now) = (marked_position(user, conversation), self.ctx.now());
        let until = until.map_or(0, Timestamp::as_millis);
        let entry = rows::set_mute(&self.database, now, &marked, until).await?;
        let written = self.write_keys_from_row(user, conversation).await?;
        Ok(self.finish_mark(entry, written))
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

    /// Writes the keys from the current row, also if the row did not change: another service may have changed them.
    /// Returns the unread count and the result of the key update.
    async fn write_keys_from_row(
        &self,
        user: &UserId,
        conversation: &ConversationId,
    ) -> Result<(UnreadCount, Result<()>)> {
        let row = self.position_and_total(user, conversation).await?;
        let update = CounterUpdate::from(&row.position);
        let written = self
            .apply_updates(conversation, &[(user, update)], true)
            .await;
        let count = UnreadCount {
            unread: row.position.unread_count(),
            total: row.total,
        };
        Ok((count, written))
    }

    fn finish_mark(
        &self,
        entry: Option<OutboxEntry>,
        (count, written): (UnreadCount, Result<()>),
    ) -> UnreadCount {
        log_failure("update unread counts", &written);
        if let (Some(entry), Ok(())) = (entry, written) {
            entry.acknowledge(&self.database);
        }
        count
    }
}

fn marked_position(user: &UserId, conversation: &ConversationId) -> MarkedPosition {
    MarkedPosition {
        conversation: conversation.clone(),
        user: user.clone(),
    }
}
