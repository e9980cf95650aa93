//! Reading messages: pages in both directions, one message, what was changed.
//!
//! Always true:
//! 1. A page has no hole, is in the order of `seq`, and says whether there is more in the direction it was asked for.
//! 2. Whoever sees a conversation's history only since they joined sees nothing of what was before, by no way.

use std::sync::atomic::Ordering;

use serde::Serialize;
use utoipa::ToSchema;

use super::recent::Range;
use super::row::MessageRow;
use super::rows::{self, PAGE, Read};
use super::{Message, Messages};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::ticking::told;

/// Most messages of one page.
pub const MOST_MESSAGES: u64 = PAGE;

/// More than any message has, and exact in a script.
const MOST_SEQ: u64 = 1 << 52;

/// Which messages are asked for: those before a number, those after it, or the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
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

impl Range {
    /// The messages of a page; `hidden` is the last one that is not shown.
    fn of(page: Page, limit: u64, hidden: u64) -> Self {
        let (before, after) = match page {
            Page::Newest => (None, None),
            Page::Before(seq) => (Some(seq.clamp(1, MOST_SEQ)), None),
            Page::After(seq) => (None, Some(seq.min(MOST_SEQ))),
        };
        Self {
            before,
            after,
            limit,
            hidden,
        }
    }

    /// After and before which messages those are that belong to the page, if `last` is the newest there is.
    fn bounds(&self, last: u64) -> (u64, u64) {
        if let Some(after) = self.after {
            let after = after.max(self.hidden).min(last);
            return (after, last.min(after + self.limit) + 1);
        }
        let before = self.before.unwrap_or(u64::MAX).clamp(1, last + 1);
        let after = before.saturating_sub(self.limit + 1).max(self.hidden);
        (after, before.max(after + 1))
    }

    /// Whether there is more in the direction that was asked for.
    fn has_more(&self, last: u64) -> bool {
        let (after, before) = self.bounds(last);
        match self.after {
            Some(_) => before <= last,
            None => after > self.hidden && before > 1,
        }
    }
}

impl Messages {
    /// A page of at most `limit` messages of what the member may see; everything without a user.
    pub async fn history(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
        page: Page,
        limit: u64,
    ) -> Result<MessageList> {
        let hidden = self.hidden(conversation, user).await?;
        let range = Range::of(page, limit.clamp(1, MOST_MESSAGES), hidden);
        self.range(conversation, &range).await
    }

    /// One message, if the user may see it.
    pub async fn one(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
        seq: u64,
    ) -> Result<Message> {
        let hidden = self.hidden(conversation, user).await?;
        if seq > hidden {
            let range = Range::of(Page::After(seq - 1), 1, hidden);
            let found = self.range(conversation, &range).await?;
            if let Some(message) = found.messages.into_iter().find(|it| it.seq == seq) {
                return Ok(message);
            }
        }
        Err(no_message(seq))
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
        let hidden = self.hidden(conversation, user).await?;
        let limit = limit.clamp(1, MOST_MESSAGES);
        let rows = rows::changed(&self.database, conversation, rev, hidden, limit).await?;
        Ok(rows.into_iter().map(MessageRow::into_message).collect())
    }

    async fn range(&self, conversation: &ConversationId, range: &Range) -> Result<MessageList> {
        let found = match self.listed(conversation, range).await {
            Ok(found) => found,
            Err(error) => {
                told::<()>("read the recent list", &Err(error));
                return self.read_rows(conversation, range).await;
            }
        };
        if let Some(found) = &found
            && let Some(messages) = &found.messages
        {
            return Ok(MessageList {
                has_more: range.has_more(found.top),
                messages: messages.clone(),
            });
        }
        // What the list never holds is no reason to install it.
        let old = |last: u64| last.saturating_sub(PAGE) > range.bounds(last).0;
        if found.as_ref().is_some_and(|found| old(found.top)) {
            return self.read_rows(conversation, range).await;
        }
        let Some(newest) = self.newest(conversation, found.as_ref()).await? else {
            return Ok(nothing());
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

    async fn read_rows(&self, conversation: &ConversationId, range: &Range) -> Result<MessageList> {
        self.row_reads.fetch_add(1, Ordering::Relaxed);
        let read = match range.after {
            Some(after) => {
                let after = after.max(range.hidden);
                let before = after + range.limit + 1;
                rows::between(&self.database, conversation, after, before).await?
            }
            None => {
                let before = range.before.unwrap_or(MOST_SEQ);
                rows::before(&self.database, conversation, before, range.limit).await?
            }
        };
        let Some(Read { head, rows }) = read else {
            return Ok(nothing());
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
    pub(super) async fn hidden(
        &self,
        conversation: &ConversationId,
        user: Option<&UserId>,
    ) -> Result<u64> {
        let Some(user) = user else { return Ok(0) };
        self.sights.hidden(conversation, user).await
    }
}

/// There is no message of this number for the one who asks.
pub(super) fn no_message(seq: u64) -> Error {
    Error::NotFound(format!("there is no message {seq}"))
}

fn nothing() -> MessageList {
    MessageList {
        messages: Vec::new(),
        has_more: false,
    }
}
