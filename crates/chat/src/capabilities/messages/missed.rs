//! Missed messages: messages after a position, and older messages that were changed since.
//!
//! Invariants:
//! 1. Missed messages are read from the database, not from the recent list. The list can lag behind by messages that
//!    are being applied, and a caller that joins a live feed must not miss a message between both.
//! 2. The conversation head is read before the rest, so `rev` and `last_seq` do not promise more than was read. Later
//!    changes are left to the live feed, in order: a client that received a revision has received every change before
//!    it.

use super::message_row::MessageRow;
use super::model::MAX_SEQ;
use super::rows::{self, ConversationHead, HeadAndRows, RECENT_LIST_LEN};
use super::{Message, Messages, MissedMessages};
use crate::api::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// Maximum number of missed messages, and of missed changes, in one reply.
const MAX_MISSED: u64 = 500;
/// Attempts to read the missed messages while they are being changed.
const MAX_READ_ATTEMPTS: usize = 3;

impl Messages {
    /// Returns the messages after `after_seq`, and the older ones that were changed after `after_rev`. Without
    /// `after_seq` it returns no messages.
    pub async fn read_missed(
        &self,
        conversation: &ConversationId,
        user: &UserId,
        after_seq: Option<u64>,
        after_rev: Option<u64>,
    ) -> Result<MissedMessages> {
        let hidden = self.hidden_through_seq(conversation, Some(user)).await?;
        let mut attempts = 0;
        loop {
            let missed = self.read_missed_once(conversation, hidden, after_seq, after_rev);
            let mut missed = missed.await?;
            attempts += 1;
            let Some(changed) = missed.messages.iter().position(|it| it.rev > missed.rev) else {
                return Ok(missed);
            };
            if attempts == MAX_READ_ATTEMPTS {
                missed.messages.truncate(changed);
                missed.has_more = true;
                return Ok(missed);
            }
        }
    }

    async fn read_missed_once(
        &self,
        conversation: &ConversationId,
        hidden: u64,
        after_seq: Option<u64>,
        after_rev: Option<u64>,
    ) -> Result<MissedMessages> {
        let after = after_seq.map(|seq| seq.max(hidden).min(MAX_SEQ));
        // Without `after_seq`, only the head is needed.
        let (from, to) = after.map_or((0, 1), |seq| (seq, seq + RECENT_LIST_LEN + 1));
        let Some(HeadAndRows { head, rows }) =
            rows::find_between(&self.database, conversation, from, to).await?
        else {
            return Err(Error::NotAMember(conversation.clone()));
        };
        let mut missed = MissedMessages {
            messages: Vec::new(),
            last_seq: head.last_seq,
            rev: head.rev,
            has_more: false,
        };
        let Some(after) = after else {
            return Ok(missed);
        };
        if let Some(rev) = after_rev {
            self.add_changed_messages(conversation, &mut missed, (hidden, after), rev)
                .await?;
            if missed.has_more {
                // The new messages may have higher revisions than the changes that are not included, so they must not
                // come first.
                return Ok(missed);
            }
        }
        missed.messages.extend(messages_through_head(rows, &head));
        let to = head.last_seq.min(after.saturating_add(MAX_MISSED));
        let mut from = after + RECENT_LIST_LEN;
        while from < to {
            let read = self.read_rows_after(conversation, from).await?;
            let rows = read.map(|it| it.rows).unwrap_or_default();
            missed.messages.extend(messages_through_head(rows, &head));
            from += RECENT_LIST_LEN;
        }
        missed.has_more |= to < head.last_seq;
        Ok(missed)
    }

    /// Returns a revision that is not newer than the creation of message `seq`. Every change since then has a higher
    /// revision, and perhaps a few older changes have, too. 0 if no unchanged message is found.
    pub async fn rev_at_seq(&self, conversation: &ConversationId, seq: u64) -> Result<u64> {
        rows::last_unchanged_rev(&self.database, conversation, seq).await
    }

    /// Returns a page of the messages after a `seq`.
    pub(crate) async fn messages_after(
        &self,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<Vec<Message>> {
        let read = self.read_rows_after(conversation, seq).await?;
        let rows = read.map(|it| it.rows).unwrap_or_default();
        Ok(rows.into_iter().map(MessageRow::into_message).collect())
    }

    /// Returns a page of the messages up to `last` that were changed after a revision, by revision.
    pub(crate) async fn changed_messages_through(
        &self,
        conversation: &ConversationId,
        rev: u64,
        last: u64,
    ) -> Result<Vec<Message>> {
        let read = rows::find_changed_in_range(
            &self.database,
            conversation,
            rev,
            (0, last),
            RECENT_LIST_LEN,
        );
        let rows = read.await?.into_iter();
        Ok(rows.map(MessageRow::into_message).collect())
    }

    /// Adds the visible messages up to `last` that were changed after a revision.
    async fn add_changed_messages(
        &self,
        conversation: &ConversationId,
        missed: &mut MissedMessages,
        (hidden, last): (u64, u64),
        rev: u64,
    ) -> Result<()> {
        let range = (hidden, last);
        let read =
            rows::find_changed_in_range(&self.database, conversation, rev, range, MAX_MISSED + 1);
        let mut changed = read.await?;
        changed.retain(|it| it.rev <= missed.rev);
        if changed.len() as u64 > MAX_MISSED {
            changed.truncate(MAX_MISSED as usize);
            missed.has_more = true;
            // The client requests the rest with this revision.
            missed.rev = changed.last().map_or(rev, |it| it.rev);
        }
        changed.sort_unstable_by_key(|it| it.seq);
        let changed = changed.into_iter().map(MessageRow::into_message);
        missed.messages.extend(changed);
        Ok(())
    }
}

/// Returns the messages up to the `last_seq` of the head.
fn messages_through_head(
    rows: Vec<MessageRow>,
    head: &ConversationHead,
) -> impl Iterator<Item = Message> {
    let last = head.last_seq;
    let rows = rows.into_iter().filter(move |it| it.seq <= last);
    rows.map(MessageRow::into_message)
}
