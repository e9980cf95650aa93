//! Editing and deleting messages.
//!
//! Always true:
//! 1. A change is made under the conversation's lock and has a revision of its own; the list and the nodes are told by it.
//! 2. A change is acknowledged when the list shows it or is gone. One that the store did not take in time is not
//!    acknowledged, and made up for as soon as the store answers.
//! 3. A message that was deleted stays: with its number, without its content. Who was mentioned when it was sent stays
//!    mentioned, and counts until they have read that far: neither edits nor deletes move anybody's count.

use std::sync::Arc;

use parlor_store::{Script, script};
use redis::{FromRedisValue, ParsingError, Value};

use super::append::State;
use super::content::Content;
use super::encode::Encoded;
use super::history::no_message;
use super::owed::Step;
use super::row::MessageRow;
use super::rows::{self, Edited};
use super::{Message, Messages};
use crate::access::{Caller, Role};
use crate::bus::frame::Kind;
use crate::context::Moment;
use crate::database::Transaction;
use crate::error::{Error, Result};
use crate::ids::ConversationId;

static CHANGE: Script = script!("change.lua");

/// How often a change is tried while messages before it are missing.
const TRIES: usize = 4;

/// What a message is to become; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// Another text.
    pub content: Option<String>,
    /// Other metadata.
    pub metadata: Option<serde_json::Value>,
}

/// What the row of a message is to become.
enum Change {
    Edit(Edit),
    Delete,
}

impl Messages {
    /// Gives a message another text or other metadata. For its sender within the edit window; for owners and admins of the
    /// conversation, for admins and services any time.
    pub async fn edit(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
        edit: Edit,
    ) -> Result<Message> {
        if edit.content.is_none() && edit.metadata.is_none() {
            let text = "neither `content` nor `metadata` is given".to_owned();
            return Err(Error::InvalidRequest(text));
        }
        self.change(caller, conversation, seq, Change::Edit(edit))
            .await
    }

    /// Takes the content of a message away, for the same people. Again it is harmless.
    pub async fn delete(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<Message> {
        self.change(caller, conversation, seq, Change::Delete).await
    }

    /// On a task of its own: whoever gives up waiting leaves no row behind that the list does not show.
    async fn change(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
        change: Change,
    ) -> Result<Message> {
        let (this, caller, conversation) = (Arc::clone(self), caller.clone(), conversation.clone());
        self.aside(async move {
            let changed = this.change_row(&caller, &conversation, seq, change).await;
            if matches!(changed, Err(Error::DatabaseUnavailable(_))) {
                // It may be made all the same, and nobody else knows of it.
                this.owed.note(Step::Change(conversation.clone(), seq));
            }
            let row = changed?;
            if let Err(error) = this.show(&conversation, row.clone()).await {
                this.owed.note(Step::Change(conversation, seq));
                return Err(Error::Untold(Box::new(error)));
            }
            Ok(row.into_message())
        })
        .await
    }

    async fn change_row(
        &self,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
        change: Change,
    ) -> Result<MessageRow> {
        let now = self.ctx.now();
        let mut tx = self.database.begin().await?;
        let rev = rows::raise(&mut tx, conversation).await?;
        let may_all = may_change_all(&mut tx, caller, conversation).await?;
        let rev = rev.ok_or_else(|| no_message(seq))?;
        let row = rows::one(&mut tx, conversation, seq).await?;
        let row = row.ok_or_else(|| no_message(seq))?;
        if !may_all {
            self.may_change(caller, &row, now)?;
        }
        let row = match change {
            Change::Delete if row.deleted_at.is_some() => return Ok(row),
            Change::Delete => rows::delete(&mut tx, conversation, seq, now, rev).await?,
            Change::Edit(_) if row.deleted_at.is_some() => return Err(Error::MessageDeleted(seq)),
            Change::Edit(edit) => {
                let content = self.edited(&row, edit)?;
                let edited = Edited {
                    content: &content.text,
                    metadata: content.metadata.as_deref(),
                    at: now,
                    rev,
                };
                rows::edit(&mut tx, conversation, seq, &edited).await?
            }
        };
        tx.commit().await?;
        Ok(row)
    }

    fn edited(&self, row: &MessageRow, edit: Edit) -> Result<Content> {
        let kept = || {
            let text = row.metadata.as_deref()?;
            serde_json::from_str(text).ok()
        };
        let metadata = edit.metadata.or_else(kept);
        let text = edit.content.unwrap_or_else(|| row.content.clone());
        Content::check(text, metadata.as_ref(), &self.options)
    }

    fn may_change(&self, caller: &Caller, row: &MessageRow, now: Moment) -> Result<()> {
        if *caller.user()? != row.sender_id {
            let text = "a message is changed by its sender or an admin".to_owned();
            return Err(Error::Forbidden(text));
        }
        let window = self.options.edit_window;
        if Moment(row.created_at).plus(window) <= now {
            return Err(Error::EditWindowOver(window.as_secs()));
        }
        Ok(())
    }

    /// Shows a message as its row is now, in the list and to the nodes.
    pub(super) async fn show(&self, conversation: &ConversationId, row: MessageRow) -> Result<()> {
        let (message, _) = Encoded::new(Kind::MessageChanged, row, self.layout());
        for _ in 0..TRIES {
            let state = self.change_step(conversation, &message, false).await?;
            if state == State::Applied {
                return Ok(());
            }
            self.catch_up(conversation).await?;
        }
        tracing::error!(%conversation, seq = message.seq, "a change cannot be shown");
        Ok(())
    }

    /// The same where the list shows an older state of the message, and only there.
    pub(super) async fn show_if_unseen(
        &self,
        conversation: &ConversationId,
        row: MessageRow,
    ) -> Result<()> {
        let (message, _) = Encoded::new(Kind::MessageChanged, row, self.layout());
        let step = self.change_step(conversation, &message, true).await;
        step.map(drop)
    }

    async fn change_step(
        &self,
        conversation: &ConversationId,
        message: &Encoded,
        if_unseen: bool,
    ) -> Result<State> {
        let keys = self.ctx.keys();
        let call = CHANGE
            .keys(&[keys.top(conversation), keys.recent(conversation)])
            .arg(self.epoch())
            .arg(message.seq)
            .arg(message.rev)
            .arg(&message.frame)
            .arg(&message.entry_end)
            .arg(self.top_ttl())
            .arg(self.ctx.store().bus().publish_command())
            .arg(keys.conversation_bus(conversation))
            .arg(u8::from(if_unseen));
        let Shown(state) = call.run(&self.ctx.store().repeatable()).await?;
        Ok(state)
    }
}

/// Whether the caller may change the messages of others, at any time. Refuses who is no member.
async fn may_change_all(
    tx: &mut Transaction,
    caller: &Caller,
    conversation: &ConversationId,
) -> Result<bool> {
    if caller.role != Role::User {
        return Ok(true);
    }
    let role = rows::role(tx, conversation, caller.user()?).await?;
    let role = role.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
    Ok(matches!(role.as_str(), "owner" | "admin"))
}

struct Shown(State);

impl FromRedisValue for Shown {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        State::named(&String::from_redis_value(value)?).map(Self)
    }
}
