//! Recent list: the newest messages of a conversation, kept in the store for all nodes and other services.
//!
//! Invariants:
//! 1. The list is served only if the watermark belongs to the current epoch and the entry at index `n` is the message
//!    whose `seq` is `applied_seq - n`.
//! 2. The list is installed only from rows that contain everything that was applied. The watermark contains the
//!    revision of the last published change, and rows are read together with the revision of their conversation.
//! 3. What the list cannot answer is read from the database, also while the store is unavailable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use redis::{FromRedisValue, ParsingError, Value};

use super::encode::EncodedMessage;
use super::rows::{self, HeadAndRows};
use super::scripts::{INSTALL_RECENT_LIST, READ_RECENT_PAGE};
use super::{Message, Messages};
use crate::api::error::Result;
use crate::background::log_failure;
use crate::bus::frame::BusFrameKind;
use crate::clock::duration_millis;
use crate::ids::ConversationId;
use crate::keys::{ForeignKeyWarning, RecentLayout, TtlName};
use crate::single_flight::FlightRole;

/// Attempts to read the rows and install the list. An attempt fails if a newer message or change is applied meanwhile.
const MAX_REFILL_ATTEMPTS: usize = 4;
/// Loads of other callers that a caller waits for before it loads the messages itself. The second one began after the
/// first one ended, so it contains what the caller needs.
const MAX_SHARED_LOADS_AWAITED: usize = 2;

static FOREIGN_LIST: ForeignKeyWarning =
    ForeignKeyWarning::new("the newest messages are read from the database");

/// Requested `seq` range of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HistoryRange {
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) limit: u64,
    /// Messages up to this `seq` are not visible.
    pub(super) hidden_through_seq: u64,
}

/// Reply of the recent list.
#[derive(Debug)]
pub(super) struct RecentListReply {
    /// Highest applied `seq`.
    pub(super) applied_seq: u64,
    /// Revision of the last published change.
    rev: u64,
    /// The complete page, oldest first. `None` if the list does not contain all of it.
    pub(super) messages: Option<Vec<Message>>,
}

/// The newest messages of a conversation, read by one statement.
#[derive(Debug)]
pub(super) struct NewestMessages {
    pub(super) last_seq: u64,
    rev: u64,
    /// Oldest first.
    pub(super) messages: Vec<Message>,
}

impl NewestMessages {
    /// Whether these rows include everything that was applied when the list was read.
    fn includes_all_applied(&self, found: Option<&RecentListReply>) -> bool {
        found.is_none_or(|found| self.last_seq >= found.applied_seq && self.rev >= found.rev)
    }
}

impl Messages {
    /// Configured layout of the recent list.
    pub(super) fn recent_list_layout(&self) -> RecentLayout {
        self.ctx.keys().settings().layouts.recent
    }

    /// Reads a page from the recent list in one round trip. `None` if the conversation is cold.
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
            .arg(self.ctx.store_epoch())
            .arg(text(range.before))
            .arg(text(range.after))
            .arg(range.limit)
            .arg(range.hidden_through_seq);
        let listed: RecentPageResponse = call.run(&self.ctx.store().idempotent()).await?;
        Ok(listed.0)
    }

    /// Reads the newest messages from the database, once for all concurrent callers, and installs the list from them.
    /// `None` if the conversation does not exist.
    pub(super) async fn load_newest(
        &self,
        conversation: &ConversationId,
        found: Option<&RecentListReply>,
    ) -> Result<Option<Arc<NewestMessages>>> {
        let mut leader = None;
        for _ in 0..MAX_SHARED_LOADS_AWAITED {
            match self.newest_loads.join(conversation) {
                FlightRole::Follower(follower) => {
                    // The load may have failed, or it began before the newest message was applied.
                    let newest = follower.wait().await;
                    if let Some(newest) = newest.filter(|it| it.includes_all_applied(found)) {
                        return Ok(Some(newest));
                    }
                }
                FlightRole::Leader(role) => {
                    leader = Some(role);
                    break;
                }
                FlightRole::Bypass => break,
            }
        }
        let newest = self.refill_recent_list(conversation).await?.map(Arc::new);
        if let (Some(leader), Some(newest)) = (leader, &newest) {
            leader.complete(Arc::clone(newest));
        }
        Ok(newest)
    }

    /// Reads the newest rows and installs the list from them.
    async fn refill_recent_list(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<NewestMessages>> {
        let mut newest = None;
        for _ in 0..MAX_REFILL_ATTEMPTS {
            // The epoch is read before the rows, so that rows of an earlier epoch are not installed.
            let epoch = self.ctx.store_epoch();
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
                Ok(InstallStatus::ForeignKey) => {
                    let key = self.ctx.keys().recent_list(conversation);
                    FOREIGN_LIST.report(&key);
                    break;
                }
                Ok(InstallStatus::Stale) => {}
                Ok(InstallStatus::Cold) => {
                    let applied = self.apply_after(conversation, None, None).await;
                    if applied.is_err() {
                        log_failure("install the recent list", &applied);
                        break;
                    }
                }
                // The caller still gets the rows.
                Err(error) => {
                    log_failure::<()>("install the recent list", &Err(error));
                    break;
                }
            }
        }
        Ok(newest)
    }

    /// Returns the messages, and the entries of the list, newest first.
    fn encode_list_entries(&self, read: HeadAndRows) -> (NewestMessages, Vec<Vec<u8>>) {
        let (kind, layout) = (BusFrameKind::MessageCreated, self.recent_list_layout());
        let head = read.head;
        let (mut messages, mut entries) = (Vec::new(), Vec::new());
        for row in read.rows {
            let (encoded, message) = EncodedMessage::new(kind, row, head.members_version, layout);
            entries.push(encoded.list_entry());
            messages.push(message);
        }
        entries.reverse();
        let newest = NewestMessages {
            last_seq: head.last_seq,
            rev: head.rev,
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

/// Reply of the install script.
enum InstallStatus {
    /// The list is installed.
    Done,
    /// A newer message or change was applied after the rows were read.
    Stale,
    /// The store has no watermark of the current epoch.
    Cold,
    /// The key has a foreign type and stays as it is.
    ForeignKey,
}

impl FromRedisValue for InstallStatus {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "OK" => Ok(Self::Done),
            "OLD" => Ok(Self::Stale),
            "COLD" => Ok(Self::Cold),
            "FOREIGN" => Ok(Self::ForeignKey),
            other => Err(ParsingError::from(format!(
                "unknown install status {other}"
            ))),
        }
    }
}

/// Reply of the page script. `None` if the conversation is cold.
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

/// Decodes the entries, if they are exactly the messages from `oldest` to `newest`.
fn decode_list_entries(newest: u64, oldest: u64, entries: &[Vec<u8>]) -> Option<Vec<Message>> {
    let wanted = (newest + 1).saturating_sub(oldest);
    if entries.len() as u64 != wanted {
        return None;
    }
    let mut messages = Vec::with_capacity(entries.len());
    for (entry, seq) in entries.iter().rev().zip(oldest..) {
        // An entry with a foreign value is not returned to clients.
        let message: Message = serde_json::from_slice(entry).ok()?;
        if message.seq != seq {
            return None;
        }
        messages.push(message);
    }
    Some(messages)
}
