//! What is answered about unread messages.

use super::field;
use super::recount::Case;
use super::rows::{self, Counted, Position};
use super::{ConversationCount, Counts, Receipt, ReceiptPage, Unread};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::ticking::told;

/// Most receipts in one answer.
pub(super) const MOST_RECEIPTS: u32 = 1_000;

impl Unread {
    /// What waits for a user. The user's keys are set right by it.
    pub async fn counts(&self, user: &UserId) -> Result<Counts> {
        let epoch = self.epoch();
        let held = field::read(&self.ctx, std::slice::from_ref(user)).await;
        let rows = rows::counted(&self.database, user).await?;
        let counts = self.summed(&rows);
        let shown = match held {
            Ok(held) => {
                let rows: Vec<Position> = rows.into_iter().map(|it| it.position).collect();
                let case = Case {
                    user,
                    held: &held[0],
                    rows: &rows,
                    strays: &[],
                    thorough: false,
                };
                self.settle(epoch, &[case], None).await
            }
            Err(error) => Err(error),
        };
        told("write unread counts", &shown);
        Ok(counts)
    }

    /// How many messages of a conversation wait for a member.
    pub async fn waiting(&self, user: &UserId, conversation: &ConversationId) -> Result<u64> {
        let position = rows::position(&self.database, conversation, user).await?;
        let position = position.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
        Ok(position.count())
    }

    fn summed(&self, rows: &[Counted]) -> Counts {
        let now = self.ctx.now().ms();
        let mut counts = Counts::default();
        for Counted { position, mentions } in rows.iter().filter(|it| it.position.count() > 0) {
            let muted = position.is_muted(now);
            if !muted {
                counts.total += position.count();
                counts.mentions += mentions;
            }
            counts.conversations.push(ConversationCount {
                conversation_id: position.conversation_id.clone(),
                count: position.count(),
                mentions: *mentions,
                muted,
            });
        }
        counts
    }

    /// How far the members of a conversation have got and read its messages, by user id, after a cursor.
    pub async fn receipts(
        &self,
        conversation: &ConversationId,
        cursor: Option<&UserId>,
        limit: u32,
    ) -> Result<ReceiptPage> {
        let limit = limit.clamp(1, MOST_RECEIPTS);
        let after = cursor.map_or("", UserId::as_str);
        let found = rows::receipts(&self.database, conversation, after, limit + 1).await?;
        let more = found.len() > limit as usize;
        let receipts = found.into_iter().take(limit as usize).map(|row| Receipt {
            user_id: row.user_id,
            delivered_seq: row.reached.delivered_seq,
            read_seq: row.reached.read_seq,
        });
        let receipts: Vec<Receipt> = receipts.collect();
        let last = receipts.last().filter(|_| more);
        Ok(ReceiptPage {
            next_cursor: last.map(|it| it.user_id.to_string()),
            receipts,
        })
    }
}
