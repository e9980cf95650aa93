//! What somebody missed who was away: the messages since, and older ones that were changed since.
//!
//! Always true:
//! 1. The rows answer, not the recent list: the list may be behind them by what is just being applied, and whoever joins a
//!    live stream must not fall between the two.
//! 2. The head is read before the rest, so `rev` and `last_seq` promise no more than what was read. What was changed since is
//!    left to the live stream, in its order: whoever has seen a revision is to know all changes before it.

use super::row::MessageRow;
use super::rows::{self, ConversationHead, HeadAndRows, RECENT_LIST_LEN};
use super::{Message, Messages};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// Most messages, and most changes, that are told as missed.
pub const MAX_MISSED: u64 = 500;
/// How often is read again what was changed meanwhile.
const MAX_READ_ATTEMPTS: usize = 3;
/// No message has a number near this one; whoever says more is believed so much.
const MAX_SEQ: u64 = 1 << 53;

/// What somebody missed.
#[derive(Debug, Clone, PartialEq)]
pub struct MissedMessages {
    /// Messages that were sent or changed, by their `seq`.
    pub messages: Vec<Message>,
    /// The newest message then.
    pub last_seq: u64,
    /// Up to which revision changes are among them.
    pub rev: u64,
    /// Whether there is more than could be told.
    pub has_more: bool,
}

impl Messages {
    /// What the user missed after a message, and of the older ones after a revision. Nothing where neither is said.
    pub async fn read_missed(
        &self,
        conversation: &ConversationId,
        user: &UserId,
        after_seq: Option<u64>,
        after_rev: Option<u64>,
    ) -> Result<MissedMessages> {
        let hidden = self.hidden_through_seq(conversation, Some(user)).await?;
        let mut tries = 0;
        loop {
            let missed = self.read_missed_once(conversation, hidden, after_seq, after_rev);
            let mut missed = missed.await?;
            tries += 1;
            let Some(changed) = missed.messages.iter().position(|it| it.rev > missed.rev) else {
                return Ok(missed);
            };
            if tries == MAX_READ_ATTEMPTS {
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
        // Without a number the head alone is read.
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
                // Messages may have revisions above those of the changes that are left.
                return Ok(missed);
            }
        }
        missed.messages.extend(messages_through_head(rows, &head));
        let to = head.last_seq.min(after.saturating_add(MAX_MISSED));
        let mut from = after + RECENT_LIST_LEN;
        while from < to {
            let read = rows::find_between(
                &self.database,
                conversation,
                from,
                from + RECENT_LIST_LEN + 1,
            )
            .await?;
            let rows = read.map(|it| it.rows).unwrap_or_default();
            missed.messages.extend(messages_through_head(rows, &head));
            from += RECENT_LIST_LEN;
        }
        missed.has_more |= to < head.last_seq;
        Ok(missed)
    }

    /// A revision before which message `seq` was created, or at which: changes after it are all that were made since, and at
    /// most a few that are older. 0 if there is no such message.
    pub async fn rev_at_seq(&self, conversation: &ConversationId, seq: u64) -> Result<u64> {
        rows::last_unchanged_rev(&self.database, conversation, seq).await
    }

    /// Up to where the messages of a conversation were published, if it is known.
    pub(crate) async fn applied_seq(&self, conversation: &ConversationId) -> Result<Option<u64>> {
        let tops = self
            .applied_seqs(std::slice::from_ref(conversation))
            .await?;
        Ok(tops.into_iter().next().flatten())
    }

    /// How a conversation stands; none if there is no such one.
    pub(crate) async fn head(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<ConversationHead>> {
        let read = rows::find_between(&self.database, conversation, 0, 1).await?;
        Ok(read.map(|it| it.head))
    }

    /// A page of the messages after this one.
    pub(crate) async fn messages_after(
        &self,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<Vec<Message>> {
        let read = rows::find_between(&self.database, conversation, seq, seq + RECENT_LIST_LEN + 1)
            .await?;
        let rows = read.map(|it| it.rows).unwrap_or_default();
        Ok(rows.into_iter().map(MessageRow::into_message).collect())
    }

    /// A page of the messages up to `last` that were changed after a revision, in the order of their revisions.
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

    /// Adds the messages up to the second of the bounds that were changed after a revision.
    async fn add_changed_messages(
        &self,
        conversation: &ConversationId,
        missed: &mut MissedMessages,
        (hidden, last): (u64, u64),
        rev: u64,
    ) -> Result<()> {
        let most = MAX_MISSED + 1;
        let read =
            rows::find_changed_in_range(&self.database, conversation, rev, (hidden, last), most);
        let mut changed = read.await?;
        changed.retain(|it| it.rev <= missed.rev);
        if changed.len() as u64 > MAX_MISSED {
            changed.truncate(MAX_MISSED as usize);
            missed.has_more = true;
            // The rest is asked for with this one.
            missed.rev = changed.last().map_or(rev, |it| it.rev);
        }
        changed.sort_unstable_by_key(|it| it.seq);
        let changed = changed.into_iter().map(MessageRow::into_message);
        missed.messages.extend(changed);
        Ok(())
    }
}

/// The messages up to the last one that the head knows.
fn messages_through_head(
    rows: Vec<MessageRow>,
    head: &ConversationHead,
) -> impl Iterator<Item = Message> {
    let last = head.last_seq;
    let rows = rows.into_iter().filter(move |it| it.seq <= last);
    rows.map(MessageRow::into_message)
}
