//! The recent list: the newest messages, kept where all nodes and other services read them.
//!
//! Always true:
//! 1. The entry at place `n` is the message `top - n`, or the list is not served. The top belongs to this epoch, or the list
//!    is not served.
//! 2. A list is installed only from rows that are as new as the top and as every change that was applied: the revision in
//!    the top is that of the last change, and rows carry the conversation's revision at which they were read.
//! 3. What cannot be answered here is answered from the rows, also while the store is away.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parlor_store::{LuaScript, script};
use redis::{FromRedisValue, ParsingError, Value};

use super::append::AppendStatus;
use super::encode::EncodedMessage;
use super::rows::{self, HeadAndRows};
use super::{Message, Messages};
use crate::bus::frame::BusFrameKind;
use crate::context::duration_millis;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::keys::{RecentLayout, TtlName};
use crate::ticking::log_failure;

static READ_RECENT_PAGE: LuaScript = script!("page.lua");
static INSTALL_RECENT_LIST: LuaScript = script!("refill.lua");

/// How often rows are read again because something was applied meanwhile.
const MAX_REFILL_ATTEMPTS: usize = 4;

/// Which messages are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HistoryRange {
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) limit: u64,
    /// Nothing up to this one is shown.
    pub(super) hidden_through_seq: u64,
}

/// What the list says.
#[derive(Debug)]
pub(super) struct RecentListReply {
    /// Up to where messages are applied.
    pub(super) applied_seq: u64,
    /// The revision of the last change that was applied.
    rev: u64,
    /// All that was asked for, oldest first; none if the list does not have all.
    pub(super) messages: Option<Vec<Message>>,
}

/// The newest messages of a conversation, as they were at one moment.
#[derive(Debug)]
pub(super) struct NewestMessages {
    pub(super) last_seq: u64,
    rev: u64,
    /// Oldest first.
    pub(super) messages: Vec<Message>,
}

impl NewestMessages {
    /// Whether it shows all that was applied when the list was asked.
    fn includes_all_applied(&self, found: Option<&RecentListReply>) -> bool {
        found.is_none_or(|found| self.last_seq >= found.applied_seq && self.rev >= found.rev)
    }
}

impl Messages {
    /// How the list is written.
    pub(super) fn recent_list_layout(&self) -> RecentLayout {
        self.ctx.keys().settings().layouts.recent
    }

    /// Asks the list, in one round trip. None if the store does not know up to where messages were applied.
    pub(super) async fn read_recent_list(
        &self,
        conversation: &ConversationId,
        range: &HistoryRange,
    ) -> Result<Option<RecentListReply>> {
        let keys = self.ctx.keys();
        let text = |number: Option<u64>| number.map_or_else(String::new, |it| it.to_string());
        let call = READ_RECENT_PAGE
            .keys(&[
                keys.apply_watermark(conversation),
                keys.recent_list(conversation),
            ])
            .arg(self.epoch())
            .arg(text(range.before))
            .arg(text(range.after))
            .arg(range.limit)
            .arg(range.hidden_through_seq);
        let listed: RecentPageResponse = call.run(&self.ctx.store().idempotent()).await?;
        Ok(listed.0)
    }

    /// The newest messages from the rows, read once for all who ask now; the list is installed from them. None if there is
    /// no such conversation.
    pub(super) async fn load_newest(
        &self,
        conversation: &ConversationId,
        found: Option<&RecentListReply>,
    ) -> Result<Option<Arc<NewestMessages>>> {
        self.newest_loads
            .ask(
                conversation,
                |newest: &NewestMessages| newest.includes_all_applied(found),
                async || self.refill_recent_list(conversation).await,
            )
            .await
    }

    /// Reads the newest rows and installs the list from them.
    async fn refill_recent_list(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<NewestMessages>> {
        let mut newest = None;
        for _ in 0..MAX_REFILL_ATTEMPTS {
            // Before the rows are read: what was read in another epoch is not installed.
            let epoch = self.epoch();
            self.recent_list_misses.fetch_add(1, Ordering::Relaxed);
            let Some(read) = rows::find_newest(&self.database, conversation).await? else {
                return Ok(None);
            };
            let (read, entries) = self.encode_list_entries(read);
            let install = self
                .install_recent_list(conversation, epoch, &read, &entries)
                .await;
            newest = Some(read);
            match install {
                Ok(InstallStatus::Done) => break,
                Ok(InstallStatus::Stale) => {}
                Ok(InstallStatus::Cold) => {
                    let settled = self
                        .apply_missing(conversation, AppendStatus::Cold, 0)
                        .await;
                    if settled.is_err() {
                        log_failure("install the recent list", &settled);
                        break;
                    }
                }
                // The rows answer all the same.
                Err(error) => {
                    log_failure::<()>("install the recent list", &Err(error));
                    break;
                }
            }
        }
        Ok(newest)
    }

    /// The messages, and the entries of the list, newest first.
    fn encode_list_entries(&self, read: HeadAndRows) -> (NewestMessages, Vec<Vec<u8>>) {
        let layout = self.recent_list_layout();
        let (mut messages, mut entries) = (Vec::new(), Vec::new());
        for row in read.rows {
            let (encoded, message) = EncodedMessage::new(BusFrameKind::MessageCreated, row, layout);
            entries.push(encoded.list_entry());
            messages.push(message);
        }
        entries.reverse();
        let newest = NewestMessages {
            last_seq: read.head.last_seq,
            rev: read.head.rev,
            messages,
        };
        (newest, entries)
    }

    async fn install_recent_list(
        &self,
        conversation: &ConversationId,
        epoch: u64,
        newest: &NewestMessages,
        entries: &[Vec<u8>],
    ) -> Result<InstallStatus> {
        let keys = self.ctx.keys();
        let call = INSTALL_RECENT_LIST
            .keys(&[
                keys.apply_watermark(conversation),
                keys.recent_list(conversation),
            ])
            .arg(epoch)
            .arg(newest.last_seq)
            .arg(newest.rev)
            .arg(duration_millis(keys.ttl(TtlName::Recent)))
            .arg(self.watermark_ttl_ms())
            .arg(entries);
        Ok(call.run(&self.ctx.store().idempotent()).await?)
    }
}

/// What became of a refill.
enum InstallStatus {
    /// The list is there.
    Done,
    /// Something newer was applied after the rows were read.
    Stale,
    /// It is not known up to where messages were applied.
    Cold,
}

impl FromRedisValue for InstallStatus {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "OK" => Ok(Self::Done),
            "OLD" => Ok(Self::Stale),
            "COLD" => Ok(Self::Cold),
            other => Err(ParsingError::from(format!(
                "unknown install status {other}"
            ))),
        }
    }
}

/// The reply of the list.
struct RecentPageResponse(Option<RecentListReply>);

impl FromRedisValue for RecentPageResponse {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        if matches!(&value, Value::Array(parts) if parts.is_empty()) {
            return Ok(Self(None));
        }
        let (top, rev, newest, oldest, entries): (u64, u64, u64, u64, Vec<Vec<u8>>) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Self(Some(RecentListReply {
            applied_seq: top,
            rev,
            messages: decode_list_entries(newest, oldest, &entries),
        })))
    }
}

/// The messages `oldest` to `newest`, if these entries are they.
fn decode_list_entries(newest: u64, oldest: u64, entries: &[Vec<u8>]) -> Option<Vec<Message>> {
    let wanted = (newest + 1).saturating_sub(oldest);
    if entries.len() as u64 != wanted {
        return None;
    }
    let mut messages = Vec::with_capacity(entries.len());
    for (entry, seq) in entries.iter().rev().zip(oldest..) {
        // What somebody else wrote there is not passed on.
        let message: Message = serde_json::from_slice(entry).ok()?;
        if message.seq != seq {
            return None;
        }
        messages.push(message);
    }
    Some(messages)
}
