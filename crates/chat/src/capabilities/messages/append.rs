//! The call of `append_messages.lua`, which applies consecutive messages of a conversation to the store: recent list,
//! typing keys, frame, event.
//!
//! Invariants:
//! 1. The watermark `parlor:top:{conv}` (`seq|epoch|rev`) holds the highest applied `seq`. The script applies a message
//!    only if its `seq` is the next one; otherwise it reports a gap and changes nothing.
//! 2. Applying a message late or twice has no effect.

use std::time::Duration;

use parlor_store::ScriptCall;
use redis::{FromRedisValue, ParsingError, Value};

use super::Messages;
use super::encode::{EncodedMessage, EventParticipants};
use super::keys::WATERMARK_EXTRA_TTL_SECS;
use super::scripts::APPEND_MESSAGES;
use crate::clock::duration_millis;
use crate::ids::ConversationId;
use crate::keys::TtlName;
use crate::typing;

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
        let (now, epoch) = (self.ctx.now(), self.ctx.store_epoch());
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
            EventParticipants::Listed(_) => format!("{}|{epoch}", batch.members_version),
            EventParticipants::CountOnly(_) => String::new(),
        };
        let mut call = APPEND_MESSAGES
            .keys(&names)
            .arg(epoch)
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
            .arg(batch.participants.event_suffix())
            .arg(duration_millis(keys.ttl(TtlName::Typing)));
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

    /// TTL of the watermark in ms.
    pub(super) fn watermark_ttl_ms(&self) -> u64 {
        let extra = Duration::from_secs(WATERMARK_EXTRA_TTL_SECS);
        duration_millis(self.ctx.keys().ttl(TtlName::Recent) + extra)
    }
}

impl FromRedisValue for AppendReply {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let (status, applied_seq, list_missing, participants_missing) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Self {
            status,
            applied_seq,
            list_missing,
            participants_missing,
        })
    }
}

impl FromRedisValue for AppendStatus {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "OK" => Ok(Self::Applied),
            "GAP" => Ok(Self::Gap),
            "COLD" => Ok(Self::Cold),
            other => Err(ParsingError::from(format!("unknown append status {other}"))),
        }
    }
}
