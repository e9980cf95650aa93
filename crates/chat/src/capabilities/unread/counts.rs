//! Reads unread counts.
//!
//! Invariants:
//! 1. Counts come from the database, also while the store is unavailable. Reading them corrects the keys of the user.

use super::reconcile::ReconcileInput;
use super::rows::{self, MemberPosition, PositionWithMentions};
use super::stored_counters;
use super::{ConversationUnread, Unread, UnreadSummary};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::ids::{ConversationId, UserId};

impl Unread {
    /// Returns the unread counts of a user, and corrects the user's keys if they differ.
    pub async fn get_summary(&self, user: &UserId) -> Result<UnreadSummary> {
        let epoch = self.ctx.store_epoch();
        let stored = stored_counters::read_states(&self.ctx, std::slice::from_ref(user)).await;
        let rows = rows::find_positions_with_mentions(&self.database, user).await?;
        let counts = self.summarize(&rows);
        let corrected = match stored {
            Ok(stored) => {
                let rows: Vec<MemberPosition> = rows.into_iter().map(|it| it.position).collect();
                let input = ReconcileInput {
                    user,
                    stored: &stored[0],
                    rows: &rows,
                    orphans: &[],
                    rewrite_all: false,
                    total_correction: None,
                };
                self.run_reconcile(epoch, &[input], None).await
            }
            Err(error) => Err(error),
        };
        log_failure("update unread counts", &corrected);
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
}
