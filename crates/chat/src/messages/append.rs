//! Applying messages after their commit: recent list, typing, frame, event.
//!
//! Always true:
//! 1. `seq` is taken under the conversation's lock, so everything below a committed `seq` is committed. Whoever finds a gap
//!    below their message reads the rows between and applies them first; nobody waits for anybody.
//! 2. A step that is repeated, late or doubled changes nothing.
//! 3. Where it is not known up to where messages were applied (nothing for an hour, store emptied, another epoch), those of
//!    the last minute are applied: they may not have been. They may be told twice then, and none is left out.

mod native;

use std::time::Duration;

use parlor_store::{Call, Script, script};
use redis::{FromRedisValue, ParsingError, Value, pipe};

use super::Messages;
use super::encode::{Encoded, MOST_NAMED, Participants};
use super::row::MessageRow;
use super::rows::{self, Head, PAGE, Read};
use crate::bus::frame::Kind;
use crate::context::millis;
use crate::error::Result;
use crate::ids::ConversationId;
use crate::keys::TtlName;
use crate::ticking::told;
use crate::typing;

static APPEND: Script = script!("append.lua").native(native::append);

/// How old a message is that was applied for certain, or is given up: longer than any send takes.
pub(super) const SETTLED: Duration = Duration::from_secs(60);
/// How much longer the top lives than the list.
const LONGER: Duration = Duration::from_secs(60);
/// How often catching up may fail to get further before it is given up.
const TRIES: u32 = 5;

/// What the store knows of a conversation's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// All that was given is applied.
    Applied,
    /// Messages after the top are missing.
    Gap,
    /// It is not known up to where messages were applied.
    Cold,
}

/// What became of an append.
#[derive(Debug, Clone, Copy)]
pub(super) struct Appended {
    pub(super) state: State,
    /// Up to where messages are applied.
    pub(super) top: u64,
    /// There is no recent list.
    pub(super) list_missing: bool,
    /// There is no set of these participants.
    pub(super) participants_missing: bool,
}

/// Messages of one conversation, one after the other, to be applied.
pub(super) struct Batch<'a> {
    pub(super) conversation: &'a ConversationId,
    pub(super) messages: &'a [Encoded],
    /// The conversation's revision when they were read.
    pub(super) rev: u64,
    pub(super) members_version: u64,
    pub(super) participants: &'a Participants,
    /// Up to where all is applied if the store does not know.
    pub(super) start: Option<u64>,
}

impl Messages {
    /// The step that applies messages.
    pub(super) fn append_call(&self, batch: &Batch<'_>) -> Call {
        let keys = self.ctx.keys();
        let conversation = batch.conversation;
        let now = self.ctx.now();
        let mut names = vec![
            keys.top(conversation),
            keys.recent(conversation),
            keys.participants(conversation),
            keys.participants_version(conversation),
            keys.typers(conversation),
            keys.typer_names(conversation),
        ];
        let senders = batch.messages.iter().map(|it| &it.sender);
        names.extend(senders.map(|sender| keys.typing(conversation, sender)));
        let expected = match batch.participants {
            Participants::Named(_) => self.participants_version(batch.members_version),
            Participants::Crowd(_) => String::new(),
        };
        let mut call = APPEND
            .keys(&names)
            .arg(self.epoch())
            .arg(now.ms())
            .arg(batch.rev)
            .arg(batch.start.map_or_else(String::new, |it| it.to_string()))
            .arg(expected)
            .arg(millis(keys.ttl(TtlName::Recent)))
            .arg(self.top_ttl())
            .arg(self.ctx.store().bus().publish_command())
            .arg(keys.conversation_bus(conversation))
            .arg(keys.message_created_events())
            .arg(batch.participants.event_end());
        for message in batch.messages {
            // Who sent it a while ago may type the next one.
            let typed_until = message.created_at + millis(keys.ttl(TtlName::Typing));
            let stopped = match typed_until >= now.ms() {
                true => typing::stopped_frame(&message.sender),
                false => Vec::new(),
            };
            call = call
                .arg(message.seq)
                .arg(&message.sender)
                .arg(&message.frame)
                .arg(&message.entry_end)
                .arg(stopped)
                .arg(&message.event_start);
        }
        call
    }

    /// The epoch of the store, in which what is written is checked.
    pub(super) fn epoch(&self) -> u64 {
        self.ctx.store().current_epoch()
    }

    /// What the version of the participants' set is when it shows this state of the rows.
    fn participants_version(&self, version: u64) -> String {
        format!("{version}|{}", self.epoch())
    }

    /// How long a top lives, in milliseconds.
    pub(super) fn top_ttl(&self) -> u64 {
        millis(self.ctx.keys().ttl(TtlName::Recent) + LONGER)
    }

    /// Applies everything of a conversation that is committed and not applied.
    pub async fn catch_up(&self, conversation: &ConversationId) -> Result<()> {
        let mut tops = self.tops(std::slice::from_ref(conversation)).await?;
        match tops.pop().flatten() {
            Some(top) => self.apply_rest(conversation, State::Gap, top).await,
            None => self.apply_rest(conversation, State::Cold, 0).await,
        }
    }

    /// Up to where the messages of these conversations are applied, as far as it is known.
    pub(super) async fn tops(&self, conversations: &[ConversationId]) -> Result<Vec<Option<u64>>> {
        let epoch = self.epoch().to_string();
        let mut pipe = pipe();
        for conversation in conversations {
            pipe.cmd("GET").arg(self.ctx.keys().top(conversation));
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

    /// As [`catch_up`](Self::catch_up), when it is known what the store knows.
    pub(super) async fn apply_rest(
        &self,
        conversation: &ConversationId,
        found: State,
        mut top: u64,
    ) -> Result<()> {
        let (mut state, mut tries) = (found, 0);
        while state != State::Applied {
            let (read, start) = match state {
                State::Cold => self.read_unsettled(conversation).await?,
                _ => (self.read_after(conversation, top).await?, None),
            };
            // Deleted with all that belongs to it.
            let Some(Read { head, rows }) = read else {
                return Ok(());
            };
            if rows.is_empty() && state == State::Gap {
                return Ok(());
            }
            let appended = self.append_rows(conversation, head, rows, start).await?;
            let further = state == State::Cold || appended.top > top;
            tries = if further { 0 } else { tries + 1 };
            if tries > TRIES {
                tracing::error!(%conversation, top, "rows are missing after this message");
                return Ok(());
            }
            top = appended.top;
            state = match appended.state {
                State::Applied if top < head.last_seq => State::Gap,
                state => state,
            };
        }
        Ok(())
    }

    async fn append_rows(
        &self,
        conversation: &ConversationId,
        head: Head,
        rows: Vec<MessageRow>,
        start: Option<u64>,
    ) -> Result<Appended> {
        let layout = self.layout();
        let messages = rows
            .into_iter()
            .map(|row| Encoded::new(Kind::MessageCreated, row, layout).0);
        let messages: Vec<_> = messages.collect();
        let participants = self.participants(conversation, &head).await?;
        let batch = Batch {
            conversation,
            messages: &messages,
            rev: head.rev,
            members_version: head.members_version,
            participants: &participants,
            start,
        };
        let call = self.append_call(&batch);
        let appended = call.run(&self.ctx.store().repeatable()).await?;
        // Whose node ended before they were applied has not counted them either.
        if let Some(last) = messages.last() {
            let found = match &participants {
                Participants::Named(users) if users.len() as u64 <= self.unread.fanout_limit() => {
                    self.unread.found(conversation, users).await
                }
                _ => {
                    let newest = (last.seq, head.members_version);
                    self.unread.arrived(conversation, newest, None).await
                }
            };
            told("count messages", &found);
        }
        Ok(appended)
    }

    /// Who is told to have got a message.
    pub(super) async fn participants(
        &self,
        conversation: &ConversationId,
        head: &Head,
    ) -> Result<Participants> {
        if head.member_count > MOST_NAMED {
            return Ok(Participants::Crowd(head.member_count));
        }
        let version = head.members_version;
        let users = self
            .conversations
            .participants(conversation, version)
            .await?;
        Ok(Participants::Named(users))
    }

    async fn read_after(&self, conversation: &ConversationId, seq: u64) -> Result<Option<Read>> {
        rows::between(&self.database, conversation, seq, seq + PAGE + 1).await
    }

    /// The messages that may not have been applied, and the one before them.
    async fn read_unsettled(
        &self,
        conversation: &ConversationId,
    ) -> Result<(Option<Read>, Option<u64>)> {
        let settled = self.ctx.now().ms().saturating_sub(millis(SETTLED));
        let Some(mut read) = rows::newest(&self.database, conversation).await? else {
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
        let start = rows::last_before(&self.database, conversation, settled).await?;
        Ok((self.read_after(conversation, start).await?, Some(start)))
    }
}

impl FromRedisValue for Appended {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        let (state, top, list_missing, participants_missing): (String, _, _, _) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Self {
            state: State::named(&state)?,
            top,
            list_missing,
            participants_missing,
        })
    }
}

impl State {
    /// The state that a script answers with.
    pub(super) fn named(name: &str) -> std::result::Result<Self, ParsingError> {
        match name {
            "OK" => Ok(Self::Applied),
            "GAP" => Ok(Self::Gap),
            "COLD" => Ok(Self::Cold),
            other => Err(ParsingError::from(format!("{other} is no state"))),
        }
    }
}

#[cfg(test)]
mod tests;
