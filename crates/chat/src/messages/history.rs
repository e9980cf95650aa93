//! Reading messages: pages in both directions, one message, what was changed.
//!
//! Always true:
//! 1. A page has no hole, is in the order of `seq`, and says whether there is more in the direction it was asked for.
//! 2. Whoever sees a conversation's history only since they joined sees nothing of what was before, by no way.

use std::sync::atomic::Ordering;

use serde::Serialize;
use utoipa::ToSchema;

use super::recent::HistoryRange;
use super::row::MessageRow;
use super::rows::{self, HeadAndRows, RECENT_LIST_LEN};
use super::{Message, Messages};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::ticking::log_failure;

/// Most messages of one page.
pub const MAX_HISTORY_PAGE_SIZE: u64 = RECENT_LIST_LEN;

/// More than any message has, and exact in a script.
const MAX_SEQ: u64 = 1 << 52;

/// Which messages are asked for: those before a number, those after it, or the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryAnchor {
    /// The newest.
    Newest,
    /// Those right before this one.
    Before(u64),
    /// Those right after this one.
    After(u64),
}

/// Messages, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageList {
    /// The messages.
    pub messages: Vec<Message>,
    /// Whether there are more in this direction.
    pub has_more: bool,
}

impl HistoryRange {
    /// The messages of a page; `hidden` is the last one that is not shown.
    fn from_anchor(page: HistoryAnchor, limit: u64, hidden_through_seq: u64) -> Self {
        let (before, after) = match page {
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

    /// After and before which messages those are that belong to the page, if `last` is the newest there is.
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

    /// Whether there is more in the direction that was asked for.
    fn has_more(&self, last: u64) -> bool {
        let (after, before) = self.bounds(last);
        match self.after {
            Some(_) => before <= last,
            None => after > self.hidden_through_seq && before > 1,
        }
    }
}

impl Messages {
    /// A page of at most `limit` messages of what the member may see; everything without a user.
    pub async fn history(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
        page: HistoryAnchor,
        limit: u64,
    ) -> Result<MessageList> {
        let hidden = self.hidden_through_seq(conversation, user).await?;
        let range = HistoryRange::from_anchor(page, limit.clamp(1, MAX_HISTORY_PAGE_SIZE), hidden);
        self.read_range(conversation, &range).await
    }

    /// One message, if the user may see it.
    pub async fn one(
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

    /// Messages that were edited or deleted after the revision `rev`, in the order of their revisions, of what the user may
    /// see. What was sent after it and not changed is found by [`history`](Self::history).
    pub async fn changes(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
        rev: u64,
        limit: u64,
    ) -> Result<Vec<Message>> {
        let hidden = self.hidden_through_seq(conversation, user).await?;
        let limit = limit.clamp(1, MAX_HISTORY_PAGE_SIZE);
        let rows = rows::changed(&self.database, conversation, rev, hidden, limit).await?;
        Ok(rows.into_iter().map(MessageRow::into_message).collect())
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
        // What the list never holds is no reason to install it.
        let old = |last: u64| last.saturating_sub(RECENT_LIST_LEN) > range.bounds(last).0;
        if found.as_ref().is_some_and(|found| old(found.applied_seq)) {
            return self.read_rows(conversation, range).await;
        }
        let Some(newest) = self.load_newest(conversation, found.as_ref()).await? else {
            return Ok(empty_list());
        };
        let (after, before) = range.bounds(newest.last_seq);
        if old(newest.last_seq) {
            return self.read_rows(conversation, range).await;
        }
        let messages = newest.messages.iter();
        let shown = messages.filter(|it| it.seq > after && it.seq < before);
        Ok(MessageList {
            messages: shown.cloned().collect(),
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
            return Ok(empty_list());
        };
        let (after, before) = range.bounds(head.last_seq);
        let shown = rows
            .into_iter()
            .filter(|row| row.seq > after && row.seq < before);
        Ok(MessageList {
            messages: shown.map(MessageRow::into_message).collect(),
            has_more: range.has_more(head.last_seq),
        })
    }

    /// The last message that a user does not see.
    pub(super) async fn hidden_through_seq(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
    ) -> Result<u64> {
        let Some(user) = user else { return Ok(0) };
        self.visibility.hidden_through_seq(conversation, user).await
    }
}

/// There is no message of this number for the one who asks.
pub(super) fn message_not_found(seq: u64) -> Error {
    Error::NotFound(format!("message {seq} does not exist"))
}

fn empty_list() -> MessageList {
    MessageList {
        messages: Vec::new(),
        has_more: false,
    }
}
