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

use parlor_store::{Script, script};
use redis::{FromRedisValue, ParsingError, Value};

use super::append::State;
use super::encode::Encoded;
use super::rows::{self, Read};
use super::{Message, Messages};
use crate::bus::frame::Kind;
use crate::context::millis;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::keys::{RecentLayout, TtlName};
use crate::ticking::told;

static PAGE: Script = script!("page.lua");
static REFILL: Script = script!("refill.lua");

/// How often rows are read again because something was applied meanwhile.
const TRIES: usize = 4;

/// Which messages are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) limit: u64,
    /// Nothing up to this one is shown.
    pub(super) hidden: u64,
}

/// What the list says.
#[derive(Debug)]
pub(super) struct Found {
    /// Up to where messages are applied.
    pub(super) top: u64,
    /// The revision of the last change that was applied.
    rev: u64,
    /// All that was asked for, oldest first; none if the list does not have all.
    pub(super) messages: Option<Vec<Message>>,
}

/// The newest messages of a conversation, as they were at one moment.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) last_seq: u64,
    rev: u64,
    /// Oldest first.
    pub(super) messages: Vec<Message>,
}

impl Newest {
    /// Whether it shows all that was applied when the list was asked.
    fn is_as_new_as(&self, found: Option<&Found>) -> bool {
        found.is_none_or(|found| self.last_seq >= found.top && self.rev >= found.rev)
    }
}

impl Messages {
    /// How the list is written.
    pub(super) fn layout(&self) -> RecentLayout {
        self.ctx.keys().settings().layouts.recent
    }

    /// Asks the list, in one round trip. None if the store does not know up to where messages were applied.
    pub(super) async fn listed(
        &self,
        conversation: &ConversationId,
        range: &Range,
    ) -> Result<Option<Found>> {
        let keys = self.ctx.keys();
        let text = |number: Option<u64>| number.map_or_else(String::new, |it| it.to_string());
        let call = PAGE
            .keys(&[keys.top(conversation), keys.recent(conversation)])
            .arg(self.epoch())
            .arg(text(range.before))
            .arg(text(range.after))
            .arg(range.limit)
            .arg(range.hidden);
        let listed: Listed = call.run(&self.ctx.store().repeatable()).await?;
        Ok(listed.0)
    }

    /// The newest messages from the rows, read once for all who ask now; the list is installed from them. None if there is
    /// no such conversation.
    pub(super) async fn newest(
        &self,
        conversation: &ConversationId,
        found: Option<&Found>,
    ) -> Result<Option<Arc<Newest>>> {
        self.readings
            .ask(
                conversation,
                |newest: &Newest| newest.is_as_new_as(found),
                async || self.refill(conversation).await,
            )
            .await
    }

    /// Reads the newest rows and installs the list from them.
    async fn refill(&self, conversation: &ConversationId) -> Result<Option<Newest>> {
        let mut newest = None;
        for _ in 0..TRIES {
            // Before the rows are read: what was read in another epoch is not installed.
            let epoch = self.epoch();
            self.row_reads.fetch_add(1, Ordering::Relaxed);
            let Some(read) = rows::newest(&self.database, conversation).await? else {
                return Ok(None);
            };
            let (read, entries) = self.encoded(read);
            let install = self.install(conversation, epoch, &read, &entries).await;
            newest = Some(read);
            match install {
                Ok(Install::Done) => break,
                Ok(Install::Old) => {}
                Ok(Install::Cold) => {
                    let settled = self.apply_rest(conversation, State::Cold, 0).await;
                    if settled.is_err() {
                        told("install the recent list", &settled);
                        break;
                    }
                }
                // The rows answer all the same.
                Err(error) => {
                    told::<()>("install the recent list", &Err(error));
                    break;
                }
            }
        }
        Ok(newest)
    }

    /// The messages, and the entries of the list, newest first.
    fn encoded(&self, read: Read) -> (Newest, Vec<Vec<u8>>) {
        let layout = self.layout();
        let (mut messages, mut entries) = (Vec::new(), Vec::new());
        for row in read.rows {
            let (encoded, message) = Encoded::new(Kind::MessageCreated, row, layout);
            entries.push(encoded.entry());
            messages.push(message);
        }
        entries.reverse();
        let newest = Newest {
            last_seq: read.head.last_seq,
            rev: read.head.rev,
            messages,
        };
        (newest, entries)
    }

    async fn install(
        &self,
        conversation: &ConversationId,
        epoch: u64,
        newest: &Newest,
        entries: &[Vec<u8>],
    ) -> Result<Install> {
        let keys = self.ctx.keys();
        let call = REFILL
            .keys(&[keys.top(conversation), keys.recent(conversation)])
            .arg(epoch)
            .arg(newest.last_seq)
            .arg(newest.rev)
            .arg(millis(keys.ttl(TtlName::Recent)))
            .arg(self.top_ttl())
            .arg(entries);
        Ok(call.run(&self.ctx.store().repeatable()).await?)
    }
}

/// What became of a refill.
enum Install {
    /// The list is there.
    Done,
    /// Something newer was applied after the rows were read.
    Old,
    /// It is not known up to where messages were applied.
    Cold,
}

impl FromRedisValue for Install {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "OK" => Ok(Self::Done),
            "OLD" => Ok(Self::Old),
            "COLD" => Ok(Self::Cold),
            other => Err(ParsingError::from(format!("{other} is no answer"))),
        }
    }
}

/// The reply of the list.
struct Listed(Option<Found>);

impl FromRedisValue for Listed {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        if matches!(&value, Value::Array(parts) if parts.is_empty()) {
            return Ok(Self(None));
        }
        let (top, rev, newest, oldest, entries): (u64, u64, u64, u64, Vec<Vec<u8>>) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Self(Some(Found {
            top,
            rev,
            messages: read(newest, oldest, &entries),
        })))
    }
}

/// The messages `oldest` to `newest`, if these entries are they.
fn read(newest: u64, oldest: u64, entries: &[Vec<u8>]) -> Option<Vec<Message>> {
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
