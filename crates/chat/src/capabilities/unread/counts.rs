//! Reads unread counts and receipts.

use super::reconcile::ReconcileInput;
use super::rows::{self, MemberPosition, PositionWithMentions};
use super::stored_counters;
use super::{ConversationUnread, ReadReceipt, ReadReceiptPage, Unread, UnreadSummary};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::ids::{ConversationId, UserId};

/// Maximum page size of receipts.
pub(super) const MAX_RECEIPT_PAGE_SIZE: u32 = 1_000;

impl Unread {
    /// Returns the unread counts of a user, and corrects the user's keys if they differ.
    pub async fn get_summary(&self, user: &UserId) -> Result<UnreadSummary> {
        let epoch = self.epoch();
        let held = stored_counters::read_states(&self.ctx, std::slice::from_ref(user)).await;
        let rows = rows::find_positions_with_mentions(&self.database, user).await?;
        let counts = self.summarize(&rows);
        let shown = match held {
            Ok(held) => {
                let rows: Vec<MemberPosition> = rows.into_iter().map(|it| it.position).collect();
                let case = ReconcileInput {
                    user,
                    stored: &held[0],
                    rows: &rows,
                    orphans: &[],
                    rewrite_all: false,
                    total_correction: None,
                };
                self.run_reconcile(epoch, &[case], None).await
            }
            Err(error) => Err(error),
        };
        log_failure("update unread counts", &shown);
        Ok(counts)
    }

    /// Returns the unread count of a member in one conversation.
    pub async fn count_in_conversation(
        &self,
        user: &UserId,
        conversation: &ConversationId,
    ) -> Result<u64> {
        let position = rows::find_position(&self.database, conversation, user).await?;
        let position = position.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
        Ok(position.unread_count())
    }

    fn summarize(&self, rows: &[PositionWithMentions]) -> UnreadSummary {
        let now = self.ctx.now().as_millis();
        let mut counts = UnreadSummary::default();
        for PositionWithMentions { position, mentions } in
            rows.iter().filter(|it| it.position.unread_count() > 0)
        {
            let muted = position.is_muted(now);
            if !muted {
                counts.total += position.unread_count();
                counts.mentions += mentions;
            }
            counts.conversations.push(ConversationUnread {
                conversation_id: position.conversation_id.clone(),
                count: position.unread_count(),
                mentions: *mentions,
                muted,
            });
        }
        counts
    }

    /// Lists receipts of the members of a conversation, ordered by user id, after a cursor.
    pub async fn receipts(
        &self,
        conversation: &ConversationId,
        cursor: Option<&UserId>,
        limit: u32,
    ) -> Result<ReadReceiptPage> {
        let limit = limit.clamp(1, MAX_RECEIPT_PAGE_SIZE);
        let after = cursor.map_or("", UserId::as_str);
        let found = rows::receipts(&self.database, conversation, after, limit + 1).await?;
        let more = found.len() > limit as usize;
        let receipts = found
            .into_iter()
            .take(limit as usize)
            .map(|row| ReadReceipt {
                user_id: row.user_id,
                delivered_seq: row.position.delivered_seq,
                read_seq: row.position.read_seq,
            });
        let receipts: Vec<ReadReceipt> = receipts.collect();
        let last = receipts.last().filter(|_| more);
        Ok(ReadReceiptPage {
            next_cursor: last.map(|it| it.user_id.to_string()),
            receipts,
        })
    }
}
