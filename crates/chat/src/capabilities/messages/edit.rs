//! Editing and deleting messages.
//!
//! Invariants:
//! 1. A change is made under a lock on the conversation row and gets its own revision. The recent list and the nodes
//!    identify the change by this revision.
//! 2. A change is acknowledged only after the recent list contains it or is deleted. If the store did not accept the
//!    change, the call fails, and the outbox publishes the change later.
//! 3. A deleted message keeps its row and its `seq`, without content. Edits and deletes do not change mentions: a user
//!    who was mentioned when the message was sent stays mentioned until the user has read the message.

use std::sync::Arc;

use super::append::AppendStatus;
use super::encode::EncodedMessage;
use super::history::message_not_found;
use super::message_row::MessageRow;
use super::outbox_entries::ChangedMessage;
use super::rows::{self, EditedColumns};
use super::scripts::PUBLISH_CHANGE;
use super::validate::ValidatedContent;
use super::{Message, MessageEdit, Messages};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::bus::frame::BusFrameKind;
use crate::clock::Timestamp;
use crate::conversations::MemberRole;
use crate::database::WriteTransaction;
use crate::failpoint::failpoint;
use crate::ids::ConversationId;
use crate::outbox::{self, OutboxEntry};

/// Attempts to publish a change while earlier messages are missing.
const MAX_PUBLISH_ATTEMPTS: usize = 4;

/// A committed change.
struct CommittedChange {
    row: MessageRow,
    members_version: u64,
    /// `None` if the row did not change.
    entry: Option<OutboxEntry>,
}

/// Change of a message row.
enum RowChange {
    Edit(MessageEdit),
    Delete,
}

impl Messages {
    /// Replaces the text or the metadata of a message. The sender may do this within the edit window; owners and admins
    /// of the conversation, admins and services at any time.
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

    /// Deletes the content of a message, for the same callers. Repeating it has no effect.
    pub async fn delete(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
    ) -> Result<Message> {
        self.change_message(caller, conversation, seq, RowChange::Delete)
            .await
    }

    /// Changes the row and publishes the change. Both run on their own task, so that a cancelled caller leaves no row
    /// that the recent list does not contain.
    async fn change_message(
        self: &Arc<Self>,
        caller: &Caller,
        conversation: &ConversationId,
        seq: u64,
        change: RowChange,
    ) -> Result<Message> {
        if caller.role == Role::User {
            // Checked again under the lock of the row.
            let user = caller.require_user()?;
            let member = self.conversations.find_member(conversation, user).await?;
            member.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
        }
        let (this, caller, conversation) = (Arc::clone(self), caller.clone(), conversation.clone());
        self.run_detached(async move {
            let changed = this.change_row(&caller, &conversation, seq, change).await?;
            let CommittedChange {
                row,
                members_version,
                entry,
            } = changed;
            // A message that was deleted before is published already, or its entry is in the outbox.
            let Some(entry) = entry else {
                return Ok(row.into_message());
            };
            failpoint!(this.ctx, "change.committed");
            let published = this.publish_change(&conversation, row.clone(), members_version);
            if let Err(error) = published.await {
                return Err(Error::CommittedNotPublished(Box::new(error)));
            }
            failpoint!(this.ctx, "change.published");
            entry.acknowledge(&this.database);
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
    ) -> Result<CommittedChange> {
        let now = self.ctx.now();
        let mut tx = self.database.begin().await?;
        let locked = rows::lock_and_bump_rev(&mut tx, conversation).await?;
        let may_all = may_change_any_message(&mut tx, caller, conversation).await?;
        let (rev, members_version) = locked.ok_or_else(|| message_not_found(seq))?;
        let row = rows::find_one(&mut tx, conversation, seq).await?;
        let row = row.ok_or_else(|| message_not_found(seq))?;
        if !may_all {
            self.require_sender_in_edit_window(caller, &row, now)?;
        }
        let row = match change {
            RowChange::Delete if row.deleted_at.is_some() => {
                return Ok(CommittedChange {
                    row,
                    members_version,
                    entry: None,
                });
            }
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
        let changed = ChangedMessage {
            conversation: conversation.clone(),
            seq,
        };
        let entry = outbox::insert(&mut tx, now, &changed).await?;
        tx.commit().await?;
        Ok(CommittedChange {
            row,
            members_version,
            entry: Some(entry),
        })
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
        if *caller.require_user()? != row.sender_id {
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

    /// Writes the current version of a message to the recent list and publishes it to the nodes.
    pub(super) async fn publish_change(
        &self,
        conversation: &ConversationId,
        row: MessageRow,
        members_version: u64,
    ) -> Result<()> {
        let (kind, layout) = (BusFrameKind::MessageChanged, self.recent_list_layout());
        let (message, _) = EncodedMessage::new(kind, row, members_version, layout);
        for _ in 0..MAX_PUBLISH_ATTEMPTS {
            let publish = self.run_publish_change(conversation, &message);
            if publish.await? == AppendStatus::Applied {
                return Ok(());
            }
            self.apply_unapplied(conversation).await?;
        }
        tracing::error!(%conversation, seq = message.seq, "cannot publish a change: earlier messages are not applied");
        Ok(())
    }

    async fn run_publish_change(
        &self,
        conversation: &ConversationId,
        message: &EncodedMessage,
    ) -> Result<AppendStatus> {
        let keys = self.ctx.keys();
        let call = PUBLISH_CHANGE
            .keys(&[
                keys.apply_watermark(conversation),
                keys.recent_list(conversation),
            ])
            .arg(self.ctx.store_epoch())
            .arg(message.seq)
            .arg(message.rev)
            .arg(&message.frame)
            .arg(&message.list_entry_suffix)
            .arg(self.watermark_ttl_ms())
            .arg(self.ctx.store().bus().publish_command())
            .arg(keys.conversation_channel(conversation));
        Ok(call.run(&self.ctx.store().idempotent()).await?)
    }
}

/// Whether the caller may change messages of other members, at any time. Fails if the caller is not a member.
async fn may_change_any_message(
    tx: &mut WriteTransaction,
    caller: &Caller,
    conversation: &ConversationId,
) -> Result<bool> {
    if caller.role != Role::User {
        return Ok(true);
    }
    let member = rows::find_member_role(tx, conversation, caller.require_user()?).await?;
    let role = member.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
    Ok(role != MemberRole::Member)
}
