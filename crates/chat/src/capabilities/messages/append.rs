//! Applies committed messages to the store: recent list, typing keys, frame, event.
//!
//! The watermark `parlor:top:{conv}` (`seq|epoch|rev`) holds the highest applied `seq`.
//!
//! Invariants:
//! 1. `seq` is assigned under a lock on the conversation row, so every message below a committed `seq` is committed. A
//!    node that finds a gap below its message reads the missing rows and applies them first. Nodes never wait for each
//!    other.
//! 2. Applying a message late or twice has no effect.
//! 3. If the watermark is missing or belongs to another epoch (no message within its TTL, store flushed, failover), the
//!    messages of the last minute are applied again. Subscribers can then receive a message twice, but they never miss
//!    one.

mod native;

use std::time::Duration;

use parlor_store::{LuaScript, ScriptCall, script};
use redis::{FromRedisValue, ParsingError, Value, pipe};

use super::Messages;
use super::encode::{EncodedMessage, EventParticipants, MAX_LISTED_PARTICIPANTS};
use super::message_row::MessageRow;
use super::rows::{self, ConversationHead, HeadAndRows, RECENT_LIST_LEN};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::frame::BusFrameKind;
use crate::clock::duration_millis;
use crate::ids::ConversationId;
use crate::keys::TtlName;
use crate::typing;

static APPEND_MESSAGES: LuaScript =
    script!("scripts/append_messages.lua").with_native(native::append);

/// Age from which a message is assumed to be applied, or is too old to be published. It is longer than any send takes.
pub(super) const ASSUMED_APPLIED_AFTER: Duration = Duration::from_secs(60);
/// How much longer the watermark lives than the recent list.
const WATERMARK_EXTRA_TTL: Duration = Duration::from_secs(60);
/// Attempts without progress after which gap filling stops.
const MAX_STALLED_ATTEMPTS: u32 = 5;

/// Status that the append and change scripts return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppendStatus {
    /// All given messages are applied.
    Applied,
    /// Messages between the watermark and the given message are missing.
    Gap,
    /// The store has no watermark of the current epoch.
    Cold,
}

/// Reply of the append script.
#[derive(Debug, Clone, Copy)]
pub(super) struct AppendReply {
    pub(super) status: AppendStatus,
    /// Highest applied `seq`.
    pub(super) applied_seq: u64,
    /// The recent list does not exist.
    pub(super) list_missing: bool,
    /// The participant set does not exist or has another version.
    pub(super) participants_missing: bool,
}

/// Arguments of one append call: consecutive messages of one conversation.
pub(super) struct AppendBatch<'a> {
    pub(super) conversation: &'a ConversationId,
    pub(super) messages: &'a [EncodedMessage],
    /// Revision of the conversation when the messages were read.
    pub(super) rev: u64,
    pub(super) members_version: u64,
    pub(super) participants: &'a EventParticipants,
    /// Highest applied `seq` to assume if the watermark is unknown.
    pub(super) assumed_applied_seq: Option<u64>,
}

impl Messages {
    /// Builds the call of the append script.
    pub(super) fn append_command(&self, batch: &AppendBatch<'_>) -> ScriptCall {
        let keys = self.ctx.keys();
        let conversation = batch.conversation;
        let now = self.ctx.now();
        let mut names = vec![
            keys.apply_watermark(conversation),
            keys.recent_list(conversation),
            keys.participants(conversation),
            keys.participants_version(conversation),
            keys.typing_index(conversation),
            keys.typing_names(conversation),
        ];
        let senders = batch.messages.iter().map(|it| &it.sender);
        names.extend(senders.map(|sender| keys.typing_user(conversation, sender)));
        let expected = match batch.participants {
            EventParticipants::Listed(_) => {
                self.expected_participants_version(batch.members_version)
            }
            EventParticipants::CountOnly(_) => String::new(),
        };
        let mut call = APPEND_MESSAGES
            .keys(&names)
            .arg(self.epoch())
            .arg(now.as_millis())
            .arg(batch.rev)
            .arg(
                batch
                    .assumed_applied_seq
                    .map_or_else(String::new, |it| it.to_string()),
            )
            .arg(expected)
            .arg(duration_millis(keys.ttl(TtlName::Recent)))
            .arg(self.watermark_ttl_ms())
            .arg(self.ctx.store().bus().publish_command())
            .arg(keys.conversation_channel(conversation))
            .arg(keys.message_created_events())
            .arg(batch.participants.event_suffix());
        for message in batch.messages {
            // The sender of an old message may be typing the next one, so the typing indicator stays.
            let typed_until = message.created_at + duration_millis(keys.ttl(TtlName::Typing));
            let stopped = match typed_until >= now.as_millis() {
                true => typing::encode_stopped_frame(&message.sender),
                false => Vec::new(),
            };
            call = call
                .arg(message.seq)
                .arg(&message.sender)
                .arg(&message.frame)
                .arg(&message.list_entry_suffix)
                .arg(stopped)
                .arg(&message.event_prefix);
        }
        call
    }

    /// Current epoch of the store.
    pub(super) fn epoch(&self) -> u64 {
        self.ctx.store().current_epoch()
    }

    /// Version text that the participant set must have to match this `members_version`.
    fn expected_participants_version(&self, version: u64) -> String {
        format!("{version}|{}", self.epoch())
    }

    /// TTL of the watermark in ms.
    pub(super) fn watermark_ttl_ms(&self) -> u64 {
        duration_millis(self.ctx.keys().ttl(TtlName::Recent) + WATERMARK_EXTRA_TTL)
    }

    /// Applies all messages of a conversation that are committed and not applied.
    pub async fn apply_unapplied(&self, conversation: &ConversationId) -> Result<()> {
        let mut tops = self
            .applied_seqs(std::slice::from_ref(conversation))
            .await?;
        match tops.pop().flatten() {
            Some(top) => {
                self.apply_missing(conversation, AppendStatus::Gap, top)
                    .await
            }
            None => {
                self.apply_missing(conversation, AppendStatus::Cold, 0)
                    .await
            }
        }
    }

    /// Returns the highest applied `seq` of each conversation, `None` if the conversation is cold.
    pub(super) async fn applied_seqs(
        &self,
        conversations: &[ConversationId],
    ) -> Result<Vec<Option<u64>>> {
        let epoch = self.epoch().to_string();
        let mut pipe = pipe();
        for conversation in conversations {
            pipe.cmd("GET")
                .arg(self.ctx.keys().apply_watermark(conversation));
        }
        let mut store = self.ctx.store().clone();
        let values: Vec<Option<String>> = pipe.query_async(&mut store).await?;
        let top = |value: &str| {
            let (seq, rest) = value.split_once('|')?;
            let (held, _) = rest.split_once('|')?;
            seq.parse().ok().filter(|_| held == epoch)
        };
        Ok(values
            .iter()
            .map(|it| it.as_deref().and_then(top))
            .collect())
    }

    /// As [`apply_unapplied`](Self::apply_unapplied), starting from a known status.
    pub(super) async fn apply_missing(
        &self,
        conversation: &ConversationId,
        found: AppendStatus,
        mut top: u64,
    ) -> Result<()> {
        let (mut state, mut tries) = (found, 0);
        while state != AppendStatus::Applied {
            let (read, start) = match state {
                AppendStatus::Cold => self.read_possibly_unapplied(conversation).await?,
                _ => (self.read_rows_after(conversation, top).await?, None),
            };
            // The conversation was deleted with its messages.
            let Some(HeadAndRows { head, rows }) = read else {
                return Ok(());
            };
            if rows.is_empty() && state == AppendStatus::Gap {
                return Ok(());
            }
            let appended = self.append_rows(conversation, head, rows, start).await?;
            let further = state == AppendStatus::Cold || appended.applied_seq > top;
            tries = if further { 0 } else { tries + 1 };
            if tries > MAX_STALLED_ATTEMPTS {
                tracing::error!(%conversation, top, "cannot apply messages: the rows after this seq are missing");
                return Ok(());
            }
            top = appended.applied_seq;
            state = match appended.status {
                AppendStatus::Applied if top < head.last_seq => AppendStatus::Gap,
                state => state,
            };
        }
        Ok(())
    }

    async fn append_rows(
        &self,
        conversation: &ConversationId,
        head: ConversationHead,
        rows: Vec<MessageRow>,
        start: Option<u64>,
    ) -> Result<AppendReply> {
        let layout = self.recent_list_layout();
        let messages = rows
            .into_iter()
            .map(|row| EncodedMessage::new(BusFrameKind::MessageCreated, row, layout).0);
        let messages: Vec<_> = messages.collect();
        let participants = self.event_participants(conversation, &head).await?;
        let batch = AppendBatch {
            conversation,
            messages: &messages,
            rev: head.rev,
            members_version: head.members_version,
            participants: &participants,
            assumed_applied_seq: start,
        };
        let call = self.append_command(&batch);
        let appended = call.run(&self.ctx.store().idempotent()).await?;
        // A node that dies before it applies messages has not counted them either.
        if let Some(last) = messages.last() {
            let found = match &participants {
                EventParticipants::Listed(users)
                    if users.len() as u64 <= self.unread.fanout_limit() =>
                {
                    self.unread.found(conversation, users).await
                }
                _ => {
                    let newest = (last.seq, head.members_version);
                    self.unread
                        .notify_large_conversation(conversation, newest, None)
                        .await
                }
            };
            log_failure("update unread counters", &found);
        }
        Ok(appended)
    }

    /// Returns the members that the event names.
    pub(super) async fn event_participants(
        &self,
        conversation: &ConversationId,
        head: &ConversationHead,
    ) -> Result<EventParticipants> {
        if head.member_count > MAX_LISTED_PARTICIPANTS {
            return Ok(EventParticipants::CountOnly(head.member_count));
        }
        let version = head.members_version;
        let users = self
            .conversations
            .participants_at(conversation, version)
            .await?;
        Ok(EventParticipants::Listed(users))
    }

    async fn read_rows_after(
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
    ) -> Result<(Option<HeadAndRows>, Option<u64>)> {
        let settled = self
            .ctx
            .now()
            .as_millis()
            .saturating_sub(duration_millis(ASSUMED_APPLIED_AFTER));
        let Some(mut read) = rows::find_newest(&self.database, conversation).await? else {
            return Ok((None, None));
        };
        let first = read.rows.first().map_or(1, |row| row.seq);
        let unsettled = read.rows.partition_point(|row| row.created_at < settled);
        read.rows.drain(..unsettled);
        if unsettled > 0 || first == 1 {
            let start = read
                .rows
                .first()
                .map_or(read.head.last_seq, |row| row.seq - 1);
            return Ok((Some(read), Some(start)));
        }
        let start = rows::last_seq_before(&self.database, conversation, settled).await?;
        Ok((
            self.read_rows_after(conversation, start).await?,
            Some(start),
        ))
    }
}

impl FromRedisValue for AppendReply {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let (state, top, list_missing, participants_missing): (String, _, _, _) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Self {
            status: AppendStatus::named(&state)?,
            applied_seq: top,
            list_missing,
            participants_missing,
        })
    }
}

impl AppendStatus {
    /// Parses the status that a script returns.
    pub(super) fn named(name: &str) -> std::result::Result<Self, ParsingError> {
        match name {
            "OK" => Ok(Self::Applied),
            "GAP" => Ok(Self::Gap),
            "COLD" => Ok(Self::Cold),
            other => Err(ParsingError::from(format!("unknown append status {other}"))),
        }
    }
}

#[cfg(test)]
mod tests;
