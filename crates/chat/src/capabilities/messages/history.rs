//! Reading messages: pages in both directions and single messages.
//!
//! Invariants:
//! 1. A page has no gap, is in `seq` order, and says whether there are more messages in the requested direction.
//! 2. A user who may see a conversation only since joining gets no earlier message from any function.

use std::sync::atomic::Ordering;

use super::message_row::MessageRow;
use super::model::MAX_SEQ;
use super::recent_list::HistoryRange;
use super::rows::{self, HeadAndRows, RECENT_LIST_LEN};
use super::{HistoryAnchor, Message, MessageList, Messages};
use crate::api::error::{Error, Result};
use crate::background::log_failure;
use crate::ids::{ConversationId, UserId};

/// Maximum number of messages of a page.
pub(super) const MAX_HISTORY_PAGE_SIZE: u64 = RECENT_LIST_LEN;

impl HistoryRange {
    /// Converts an anchor into a range. The user may not see messages up to `hidden_through_seq`.
    fn from_anchor(anchor: HistoryAnchor, limit: u64, hidden_through_seq: u64) -> Self {
        let (before, after) = match anchor {
            HistoryAnchor::Newest => (None, None),
            HistoryAnchor::Before(seq) => (Some(seq.clamp(1, MAX_SEQ)), None),
            HistoryAnchor::After(seq) => (None, Some(seq.min(MAX_SEQ))),
        };
        Self {
            before,
            after,
            limit,
            hidden_through_seq,
        }
    }

    /// Returns the `seq` before the first and after the last message of the page, if `last` is the newest message.
    fn bounds(&self, last: u64) -> (u64, u64) {
        if let Some(after) = self.after {
            let after = after.max(self.hidden_through_seq).min(last);
            return (after, last.min(after + self.limit) + 1);
        }
        let before = self.before.unwrap_or(u64::MAX).clamp(1, last + 1);
        let after = before
            .saturating_sub(self.limit + 1)
            .max(self.hidden_through_seq);
        (after, before.max(after + 1))
    }

    /// Whether there are more messages in the requested direction.
    fn has_more(&self, last: u64) -> bool {
        let (after, before) = self.bounds(last);
        match self.after {
            Some(_) => before <= last,
            None => after > self.hidden_through_seq && before > 1,
        }
    }
}

impl Messages {
    /// Returns a page of at most `limit` messages that the user may see. Without a user, all messages are visible.
    pub async fn history(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
        anchor: HistoryAnchor,
        limit: u64,
    ) -> Result<MessageList> {
        let hidden = self.hidden_through_seq(conversation, user).await?;
        let range =
            HistoryRange::from_anchor(anchor, limit.clamp(1, MAX_HISTORY_PAGE_SIZE), hidden);
        self.read_range(conversation, &range).await
    }

    /// Returns one message, if the user may see it.
    pub async fn find_message(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
        seq: u64,
    ) -> Result<Message> {
        let hidden = self.hidden_through_seq(conversation, user).await?;
        if seq > hidden {
            let range = HistoryRange::from_anchor(HistoryAnchor::After(seq - 1), 1, hidden);
            let found = self.read_range(conversation, &range).await?;
            if let Some(message) = found.messages.into_iter().find(|it| it.seq == seq) {
                return Ok(message);
            }
        }
        Err(message_not_found(seq))
    }

    async fn read_range(
        &self,
        conversation: &ConversationId,
        range: &HistoryRange,
    ) -> Result<MessageList> {
        let found = match self.read_recent_list(conversation, range).await {
            Ok(found) => found,
            Err(error) => {
                log_failure::<()>("read the recent list", &Err(error));
                return self.read_rows(conversation, range).await;
            }
        };
        if let Some(found) = &found
            && let Some(messages) = &found.messages
        {
            return Ok(MessageList {
                has_more: range.has_more(found.applied_seq),
                messages: messages.clone(),
            });
        }
        // A page that the recent list cannot contain is no reason to install the list.
        let is_too_old = |last: u64| last.saturating_sub(RECENT_LIST_LEN) > range.bounds(last).0;
        if found
            .as_ref()
            .is_some_and(|found| is_too_old(found.applied_seq))
        {
            return self.read_rows(conversation, range).await;
        }
        let Some(newest) = self.load_newest(conversation, found.as_ref()).await? else {
            return Ok(MessageList::default());
        };
        let (after, before) = range.bounds(newest.last_seq);
        if is_too_old(newest.last_seq) {
            return self.read_rows(conversation, range).await;
        }
        let messages = newest.messages.iter();
        let page = messages.filter(|it| it.seq > after && it.seq < before);
        Ok(MessageList {
            messages: page.cloned().collect(),
            has_more: range.has_more(newest.last_seq),
        })
    }

    async fn read_rows(
        &self,
        conversation: &ConversationId,
        range: &HistoryRange,
    ) -> Result<MessageList> {
        self.recent_list_misses.fetch_add(1, Ordering::Relaxed);
        let read = match range.after {
            Some(after) => {
                let after = after.max(range.hidden_through_seq);
                let before = after + range.limit + 1;
                rows::find_between(&self.database, conversation, after, before).await?
            }
            None => {
                let before = range.before.unwrap_or(MAX_SEQ);
                rows::find_before(&self.database, conversation, before, range.limit).await?
            }
        };
        let Some(HeadAndRows { head, rows }) = read else {
            return Ok(MessageList::default());
        };
        let (after, before) = range.bounds(head.last_seq);
        let page = rows
            .into_iter()
            .filter(|row| row.seq > after && row.seq < before);
        Ok(MessageList {
            messages: page.map(MessageRow::into_message).collect(),
            has_more: range.has_more(head.last_seq),
        })
    }

    /// Returns the last `seq` that the user may not see, 0 if all messages are visible.
    pub(super) async fn hidden_through_seq(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
    ) -> Result<u64> {
        let Some(user) = user else { return Ok(0) };
        self.visibility.hidden_through_seq(conversation, user).await
    }
}

/// Error: the message does not exist, or the caller may not see it.
pub(super) fn message_not_found(seq: u64) -> Error {
    Error::NotFound(format!("message {seq} does not exist"))
}
