//! Gap filling: reads committed messages that are not applied, and applies them.
//!
//! Invariants:
//! 1. `seq` is assigned under a lock on the conversation row, so every message below a committed `seq` is committed. A
//!    node that finds a gap below its message reads the missing rows and applies them first. Nodes never wait for each
//!    other.
//! 2. If the watermark is missing or belongs to another epoch (no message within its TTL, store flushed, failover), the
//!    conversation is cold: the messages of the last minute are applied again. Subscribers can then receive a message
//!    twice, but they never miss one.

use std::time::Duration;

use redis::pipe;

use super::Messages;
use super::append::{AppendBatch, AppendReply, AppendStatus};
use super::encode::{EncodedMessage, EventParticipants};
use super::message_row::MessageRow;
use super::rows::{self, ConversationHead, HeadAndRows, RECENT_LIST_LEN};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::frame::BusFrameKind;
use crate::clock::Timestamp;
use crate::conversations::MAX_LISTED_PARTICIPANTS;
use crate::ids::ConversationId;

/// Age from which a message is assumed to be applied, or is too old to be published. It is longer than any send takes.
pub(super) const ASSUMED_APPLIED_AFTER: Duration = Duration::from_secs(60);
/// Attempts without progress after which gap filling stops.
const MAX_STALLED_ATTEMPTS: u32 = 5;

impl Messages {
    /// Applies all messages of a conversation that are committed and not applied.
    pub async fn apply_unapplied(&self, conversation: &ConversationId) -> Result<()> {
        let applied_seq = self.applied_seq(conversation).await?;
        self.apply_after(conversation, applied_seq, None).await
    }

    /// Highest applied `seq` of a conversation, `None` if it is cold.
    pub(crate) async fn applied_seq(&self, conversation: &ConversationId) -> Result<Option<u64>> {
        let applied = self
            .applied_seqs(std::slice::from_ref(conversation))
            .await?;
        Ok(applied.into_iter().next().flatten())
    }

    /// Returns the highest applied `seq` of each conversation, `None` if the conversation is cold.
    pub(super) async fn applied_seqs(
        &self,
        conversations: &[ConversationId],
    ) -> Result<Vec<Option<u64>>> {
        let epoch = self.ctx.store_epoch().to_string();
        let mut pipe = pipe();
        for conversation in conversations {
            // GET fails if the key has a foreign type; MGET returns nil for it.
            pipe.cmd("MGET")
                .arg(self.ctx.keys().apply_watermark(conversation));
        }
        let mut store = self.ctx.store().clone();
        let values: Vec<(Option<String>,)> = pipe.query_async(&mut store).await?;
        let applied_seq = |watermark: &str| {
            let (seq, rest) = watermark.split_once('|')?;
            let (watermark_epoch, _) = rest.split_once('|')?;
            seq.parse().ok().filter(|_| watermark_epoch == epoch)
        };
        let watermarks = values
            .iter()
            .map(|(it,)| it.as_deref().and_then(applied_seq));
        Ok(watermarks.collect())
    }

    /// Applies the messages after the highest applied `seq`; `None` means that the conversation is cold. The messages of a
    /// cold conversation are applied from `unapplied_since` on, at least those of the last minute.
    pub(super) async fn apply_after(
        &self,
        conversation: &ConversationId,
        applied_seq: Option<u64>,
        unapplied_since: Option<Timestamp>,
    ) -> Result<()> {
        let (status, applied_seq) = match applied_seq {
            Some(seq) => (AppendStatus::Gap, seq),
            None => (AppendStatus::Cold, 0),
        };
        self.apply_missing(conversation, status, applied_seq, unapplied_since)
            .await
    }

    /// Applies the messages that an append found missing.
    pub(super) async fn apply_missing(
        &self,
        conversation: &ConversationId,
        mut status: AppendStatus,
        mut applied_seq: u64,
        unapplied_since: Option<Timestamp>,
    ) -> Result<()> {
        let mut stalled_attempts = 0;
        while status != AppendStatus::Applied {
            let (read, assumed_applied_seq) = match status {
                AppendStatus::Cold => {
                    self.read_possibly_unapplied(conversation, unapplied_since)
                        .await?
                }
                _ => (self.read_rows_after(conversation, applied_seq).await?, None),
            };
            // The conversation was deleted with its messages.
            let Some(HeadAndRows { head, rows }) = read else {
                return Ok(());
            };
            if rows.is_empty() && status == AppendStatus::Gap {
                return Ok(());
            }
            let append = self.append_rows(conversation, head, rows, assumed_applied_seq);
            let appended = append.await?;
            let has_progress = status == AppendStatus::Cold || appended.applied_seq > applied_seq;
            stalled_attempts = if has_progress {
                0
            } else {
                stalled_attempts + 1
            };
            if stalled_attempts > MAX_STALLED_ATTEMPTS {
                tracing::error!(%conversation, applied_seq, "cannot apply messages: the rows after this seq are missing");
                return Ok(());
            }
            applied_seq = appended.applied_seq;
            status = match appended.status {
                AppendStatus::Applied if applied_seq < head.last_seq => AppendStatus::Gap,
                status => status,
            };
        }
        Ok(())
    }

    async fn append_rows(
        &self,
        conversation: &ConversationId,
        head: ConversationHead,
        rows: Vec<MessageRow>,
        assumed_applied_seq: Option<u64>,
    ) -> Result<AppendReply> {
        let (kind, layout) = (BusFrameKind::MessageCreated, self.recent_list_layout());
        let messages: Vec<_> = rows
            .into_iter()
            .map(|row| EncodedMessage::new(kind, row, head.members_version, layout).0)
            .collect();
        let participants = self.event_participants(conversation, &head).await?;
        let batch = AppendBatch {
            conversation,
            messages: &messages,
            rev: head.rev,
            members_version: head.members_version,
            participants: &participants,
            assumed_applied_seq,
        };
        let call = self.append_command(&batch);
        let appended = call.run(&self.ctx.store().idempotent()).await?;
        // A node that dies before it applies messages has not counted them either.
        if let Some(last) = messages.last() {
            let conversations = std::slice::from_ref(conversation);
            self.unread
                .update_conversations_from_rows(conversations)
                .await?;
            let newest = (last.seq, head.members_version);
            let members = usize::try_from(head.member_count).ok();
            let notify = self
                .unread
                .notify_large_conversation(conversation, newest, members);
            log_failure("notify a large conversation", &notify.await);
        }
        Ok(appended)
    }

    /// Returns the members that the event names.
    pub(super) async fn event_participants(
        &self,
        conversation: &ConversationId,
        head: &ConversationHead,
    ) -> Result<EventParticipants> {
        if head.member_count > MAX_LISTED_PARTICIPANTS as u64 {
            return Ok(EventParticipants::CountOnly(head.member_count));
        }
        let users = self
            .conversations
            .participants_at(conversation, head.members_version);
        Ok(EventParticipants::Listed(users.await?))
    }

    /// Reads the head of a conversation and a page of the messages after a `seq`.
    pub(super) async fn read_rows_after(
        &self,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<Option<HeadAndRows>> {
        rows::find_between(&self.database, conversation, seq, seq + RECENT_LIST_LEN + 1).await
    }

    /// Reads the messages that may not be applied. Also returns the `seq` before them.
    async fn read_possibly_unapplied(
        &self,
        conversation: &ConversationId,
        unapplied_since: Option<Timestamp>,
    ) -> Result<(Option<HeadAndRows>, Option<u64>)> {
        let settled_before = self.ctx.now().saturating_sub(ASSUMED_APPLIED_AFTER);
        let settled_before = unapplied_since.map_or(settled_before, |it| it.min(settled_before));
        let settled_before = settled_before.as_millis();
        let Some(mut read) = rows::find_newest(&self.database, conversation).await? else {
            return Ok((None, None));
        };
        let first_seq = read.rows.first().map_or(1, |row| row.seq);
        let settled = read
            .rows
            .partition_point(|row| row.created_at < settled_before);
        read.rows.drain(..settled);
        if settled > 0 || first_seq == 1 {
            let first_unsettled = read.rows.first();
            let start = first_unsettled.map_or(read.head.last_seq, |row| row.seq - 1);
            return Ok((Some(read), Some(start)));
        }
        let start = rows::last_seq_before(&self.database, conversation, settled_before).await?;
        let read = self.read_rows_after(conversation, start).await?;
        Ok((read, Some(start)))
    }
}
