//! Editing and deleting messages.
//!
//! Always true:
//! 1. A change is made under the conversation's lock and has a revision of its own; the list and the nodes are told by it.
//! 2. A change is acknowledged when the list shows it or is gone. One that the store did not take in time is not
//!    acknowledged, and made up for as soon as the store answers.
//! 3. A message that was deleted stays: with its number, without its content. Who was mentioned when it was sent stays
//!    mentioned, and counts until they have read that far: neither edits nor deletes move anybody's count.

use std::sync::Arc;

use parlor_store::{LuaScript, script};
use redis::{FromRedisValue, ParsingError, Value};

use super::append::AppendStatus;
use super::content::ValidatedContent;
use super::encode::EncodedMessage;
use super::history::message_not_found;
use super::owed::PendingStoreUpdate;
use super::row::MessageRow;
use super::rows::{self, EditedColumns};
use super::{Message, Messages};
use crate::access::{Caller, Role};
use crate::bus::frame::BusFrameKind;
use crate::context::Timestamp;
use crate::database::WriteTransaction;
use crate::error::{Error, Result};
use crate::ids::ConversationId;

static PUBLISH_CHANGE: LuaScript = script!("change.lua");

/// How often a change is tried while messages before it are missing.
const MAX_PUBLISH_ATTEMPTS: usize = 4;

/// What a message is to become; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct MessageEdit {
    /// Another text.
    pub content: Option<String>,
    /// Other metadata.
    pub metadata: Option<serde_json::Value>,
}

/// What the row of a message is to become.
enum RowChange {
    Edit(MessageEdit),
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
        edit: MessageEdit,
    ) -> Result<Message> {
        if edit.content.is_none() && edit.metadata.is_none() {
            let text =
                "`content` and `metadata` are both absent; give at least one of them".to_owned();
            return Err(Error::InvalidRequest(text));
        }
        self.change_message(caller, conversation, seq, RowChange::Edit(edit))
            .await
    }

    /// Takes the content of a message away, for the same people. Again it is harmless.
    pub async fn delete(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<Message> {
        self.change_message(caller, conversation, seq, RowChange::Delete)
            .await
    }

    /// On a task of its own: whoever gives up waiting leaves no row behind that the list does not show.
    async fn change_message(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
        change: RowChange,
    ) -> Result<Message> {
        let (this, caller, conversation) = (Arc::clone(self), caller.clone(), conversation.clone());
        self.run_detached(async move {
            let changed = this.change_row(&caller, &conversation, seq, change).await;
            if matches!(changed, Err(Error::DatabaseUnavailable(_))) {
                // It may be made all the same, and nobody else knows of it.
                this.retry_queue.push(PendingStoreUpdate::UnpublishedChange(
                    conversation.clone(),
                    seq,
                ));
            }
            let row = changed?;
            if let Err(error) = this.publish_change(&conversation, row.clone()).await {
                this.retry_queue
                    .push(PendingStoreUpdate::UnpublishedChange(conversation, seq));
                return Err(Error::CommittedNotPublished(Box::new(error)));
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
        change: RowChange,
    ) -> Result<MessageRow> {
        let now = self.ctx.now();
        let mut tx = self.database.begin().await?;
        let rev = rows::lock_and_bump_rev(&mut tx, conversation).await?;
        let may_all = may_change_any_message(&mut tx, caller, conversation).await?;
        let rev = rev.ok_or_else(|| message_not_found(seq))?;
        let row = rows::find_one(&mut tx, conversation, seq).await?;
        let row = row.ok_or_else(|| message_not_found(seq))?;
        if !may_all {
            self.require_sender_in_edit_window(caller, &row, now)?;
        }
        let row = match change {
            RowChange::Delete if row.deleted_at.is_some() => return Ok(row),
            RowChange::Delete => rows::delete(&mut tx, conversation, seq, now, rev).await?,
            RowChange::Edit(_) if row.deleted_at.is_some() => {
                return Err(Error::MessageDeleted(seq));
            }
            RowChange::Edit(edit) => {
                let content = self.merge_edit(&row, edit)?;
                let edited = EditedColumns {
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

    fn merge_edit(&self, row: &MessageRow, edit: MessageEdit) -> Result<ValidatedContent> {
        let kept = || {
            let text = row.metadata.as_deref()?;
            serde_json::from_str(text).ok()
        };
        let metadata = edit.metadata.or_else(kept);
        let text = edit.content.unwrap_or_else(|| row.content.clone());
        ValidatedContent::new(text, metadata.as_ref(), &self.options)
    }

    fn require_sender_in_edit_window(
        &self,
        caller: &Caller,
        row: &MessageRow,
        now: Timestamp,
    ) -> Result<()> {
        if *caller.user()? != row.sender_id {
            let text =
                "only the sender of a message, or an owner or admin, can change it".to_owned();
            return Err(Error::Forbidden(text));
        }
        let window = self.options.edit_window;
        if Timestamp(row.created_at).saturating_add(window) <= now {
            return Err(Error::EditWindowOver(window.as_secs()));
        }
        Ok(())
    }

    /// Shows a message as its row is now, in the list and to the nodes.
    pub(super) async fn publish_change(
        &self,
        conversation: &ConversationId,
        row: MessageRow,
    ) -> Result<()> {
        let (message, _) =
            EncodedMessage::new(BusFrameKind::MessageChanged, row, self.recent_list_layout());
        for _ in 0..MAX_PUBLISH_ATTEMPTS {
            let state = self
                .run_publish_change(conversation, &message, false)
                .await?;
            if state == AppendStatus::Applied {
                return Ok(());
            }
            self.apply_unapplied(conversation).await?;
        }
        tracing::error!(%conversation, seq = message.seq, "cannot publish a change: earlier messages are not applied");
        Ok(())
    }

    /// The same where the list shows an older state of the message, and only there.
    pub(super) async fn publish_change_if_list_is_stale(
        &self,
        conversation: &ConversationId,
        row: MessageRow,
    ) -> Result<()> {
        let (message, _) =
            EncodedMessage::new(BusFrameKind::MessageChanged, row, self.recent_list_layout());
        let step = self.run_publish_change(conversation, &message, true).await;
        step.map(drop)
    }

    async fn run_publish_change(
        &self,
        conversation: &ConversationId,
        message: &EncodedMessage,
        if_unseen: bool,
    ) -> Result<AppendStatus> {
        let keys = self.ctx.keys();
        let call = PUBLISH_CHANGE
            .keys(&[
                keys.apply_watermark(conversation),
                keys.recent_list(conversation),
            ])
            .arg(self.epoch())
            .arg(message.seq)
            .arg(message.rev)
            .arg(&message.frame)
            .arg(&message.list_entry_suffix)
            .arg(self.watermark_ttl_ms())
            .arg(self.ctx.store().bus().publish_command())
            .arg(keys.conversation_channel(conversation))
            .arg(u8::from(if_unseen));
        let Shown(state) = call.run(&self.ctx.store().idempotent()).await?;
        Ok(state)
    }
}

/// Whether the caller may change the messages of others, at any time. Refuses who is no member.
async fn may_change_any_message(
    tx: &mut WriteTransaction,
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

struct Shown(AppendStatus);

impl FromRedisValue for Shown {
    fn from_redis_value(value: Value) -> std::result::Result<Self, ParsingError> {
        AppendStatus::named(&String::from_redis_value(value)?).map(Self)
    }
}
