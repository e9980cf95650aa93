//! Creates conversations.
//!
//! Invariant: of concurrent calls with the same pair or the same idempotency key, one creates the conversation and the
//! others return it.

use super::model::{ConversationDraft, MemberTransition, MembershipChange};
use super::rows::{self, ConversationRow};
use super::validate::validate_create;
use super::{Conversations, CreateConversation, member_rows, retry_on_conflict};
use crate::api::caller::Caller;
use crate::api::error::{Error, Result};
use crate::ids::UserId;

impl Conversations {
    /// Creates a conversation, or returns the existing one: the direct conversation of the pair, or the conversation
    /// that the caller created with the same idempotency key. The second value is true if the conversation is new.
    pub(super) async fn create(
        &self,
        caller: &Caller,
        request: CreateConversation,
    ) -> Result<(ConversationRow, bool)> {
        let draft = validate_create(caller, request, self.ctx.now())?;
        for _ in 0..super::MAX_CONFLICT_ATTEMPTS {
            if let Some(created) = retry_on_conflict!(self.create_once(&draft))? {
                return Ok(created);
            }
            // The next attempt finds the conflicting conversation by its pair or key. Without both, the id itself is
            // taken.
            if draft.idempotency_key.is_none() && draft.direct_pair.is_none() {
                break;
            }
        }
        Err(Error::ConversationExists(draft.id))
    }

    /// Runs one attempt; `None` if the insert conflicts with another conversation.
    async fn create_once(
        &self,
        draft: &ConversationDraft,
    ) -> Result<Option<(ConversationRow, bool)>> {
        let now = self.ctx.now();
        let mut tx = self.database.begin().await?;
        let mut existing = None;
        if let Some(key) = &draft.idempotency_key {
            let creator = draft.creator.as_ref().map_or("", UserId::as_str);
            existing = rows::find_by_idempotency_key(&mut tx, creator, key).await?;
        }
        if let (None, Some(pair)) = (&existing, &draft.direct_pair) {
            existing = rows::find_direct(&mut tx, pair).await?;
        }
        if let Some(row) = existing {
            return Ok(Some((row, false)));
        }
        let Some(row) = rows::insert(&mut tx, draft, now).await? else {
            return Ok(None);
        };
        // Checked after the insert, because the insert waits for a concurrent deletion of this id.
        if rows::is_deleted_id(&mut tx, &draft.id).await? {
            return Err(Error::ConversationExists(draft.id.clone()));
        }
        member_rows::insert(&mut tx, &row, &draft.members, now).await?;
        let joined = draft.members.iter();
        let joined = joined.map(|(user, role)| (user.clone(), MemberTransition::Joined(*role)));
        let change = MembershipChange {
            users: joined.collect(),
            ..row.membership_change()
        };
        self.commit_and_publish(tx, &change).await?;
        Ok(Some((row, true)))
    }
}
