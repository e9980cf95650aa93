//! Changes of members: join, remove, add, change a role, mute.
//!
//! Invariant: a change is decided and written in one transaction that holds the lock of the conversation's row. Muting
//! does not change membership and takes no lock.

use super::member_rows::{self, MemberRow};
use super::model::{ConversationKind, MemberRole, MemberTransition, MembershipChange};
use super::permissions::{
    conversation_not_found, is_admin_or_service, is_same_user, require_manager,
    require_owner_for_owner_change,
};
use super::rows::{self, ConversationRow};
use super::{Conversations, retry_on_conflict};
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::database::WriteTransaction;
use crate::ids::{ConversationId, UserId};

/// Effect of a change on the members.
struct MembersDelta {
    users: Vec<(UserId, MemberTransition)>,
    /// Change of the member count; `None` if no row changed.
    count_delta: Option<i64>,
}

impl MembersDelta {
    fn unchanged(user: &UserId, transition: MemberTransition) -> Self {
        Self {
            users: vec![(user.clone(), transition)],
            count_delta: None,
        }
    }

    fn single(user: &UserId, transition: MemberTransition, count_delta: i64) -> Self {
        Self {
            count_delta: Some(count_delta),
            ..Self::unchanged(user, transition)
        }
    }
}

impl Conversations {
    /// Adds the caller: to an open group, as a service to any group, or as an admin or service to a support
    /// conversation.
    pub(super) async fn join_conversation(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<ConversationRow> {
        let user = caller.require_user()?;
        retry_on_conflict!(self.join_once(caller, id, user))
    }

    async fn join_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        let row = rows::lock_and_bump_members_version(&mut tx, id).await?;
        let row =
            row.ok_or_else(|| Error::NotFound(format!("conversation {id} does not exist")))?;
        if let Some(member) = member_rows::find_in(&mut tx, id, user).await? {
            let unchanged = MembersDelta::unchanged(user, MemberTransition::Present(member.role));
            return self.finish_change(tx, row, unchanged).await;
        }
        let service = caller.role == Role::Service;
        let role = match row.kind {
            ConversationKind::Direct => None,
            ConversationKind::Group => (service || row.open != 0).then_some(MemberRole::Member),
            ConversationKind::Support => is_admin_or_service(caller).then_some(MemberRole::Admin),
        };
        let Some(role) = role else {
            return Err(Error::Forbidden(join_refusal(row.kind).to_owned()));
        };
        let role = role_of_new_member(&row, role);
        member_rows::insert(&mut tx, &row, &[(user.clone(), role)], self.ctx.now()).await?;
        let joined = MembersDelta::single(user, MemberTransition::Joined(role), 1);
        self.finish_change(tx, row, joined).await
    }

    /// Removes a member. Repeating the call has no effect.
    pub(super) async fn remove_member(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
    ) -> Result<ConversationRow> {
        retry_on_conflict!(self.remove_once(caller, id, user))
    }

    async fn remove_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        let row = rows::lock_and_bump_members_version(&mut tx, id).await?;
        let row = row.ok_or_else(|| conversation_not_found(caller, id))?;
        let member = member_rows::find_in(&mut tx, id, user).await?;
        if !is_same_user(caller, user) {
            let role = self.caller_role(&mut tx, caller, id).await?;
            require_manager(role)?;
            require_owner_for_owner_change(role, &[member.as_ref().map(|it| it.role)])?;
        }
        let Some(member) = member else {
            let unchanged = MembersDelta::unchanged(user, MemberTransition::Left);
            return self.finish_change(tx, row, unchanged).await;
        };
        require_not_direct(&row)?;
        member_rows::delete(&mut tx, id, user).await?;
        let mut left = MembersDelta::single(user, MemberTransition::Left, -1);
        // This query reads all members, so it runs only if an owner leaves.
        if member.role == MemberRole::Owner
            && let Some(heir) = member_rows::find_next_owner(&mut tx, id).await?
        {
            member_rows::set_role(&mut tx, id, &heir.user_id, MemberRole::Owner).await?;
            let transition = MemberTransition::Present(MemberRole::Owner);
            left.users.push((heir.user_id, transition));
        }
        self.finish_change(tx, row, left).await
    }

    /// Adds a member, changes a member's role, or mutes the conversation for a member until a time in ms.
    pub(super) async fn put_member(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
        role: Option<MemberRole>,
        muted: Option<u64>,
    ) -> Result<MemberRow> {
        if muted.is_some() && !is_same_user(caller, user) && caller.role != Role::Service {
            let text = "only the member or a service can mute a conversation for a member";
            return Err(Error::Forbidden(text.to_owned()));
        }
        // Muting does not change membership, so it does not take the conversation lock.
        let is_member = role.is_none() && self.find_member(id, user).await?.is_some();
        if !(is_member && muted.is_some()) {
            retry_on_conflict!(self.put_once(caller, id, user, role))?;
        }
        if let Some(until) = muted {
            let until = Some(Timestamp(until)).filter(|it| it.as_millis() > 0);
            self.unread.mute(user, id, until).await?;
        }
        let member = self.find_member(id, user).await?;
        // The member may have been removed meanwhile.
        member.ok_or_else(|| Error::NotFound(format!("{user} is not a member of {id}")))
    }

    async fn put_once(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
        role: Option<MemberRole>,
    ) -> Result<ConversationRow> {
        let mut tx = self.database.begin().await?;
        let row = rows::lock_and_bump_members_version(&mut tx, id).await?;
        let row = row.ok_or_else(|| conversation_not_found(caller, id))?;
        let member = member_rows::find_in(&mut tx, id, user).await?;
        let current = member.as_ref().map(|it| it.role);
        let wanted = role.or(current).unwrap_or(MemberRole::Member);
        if current != Some(wanted) {
            require_not_direct(&row)?;
            let own = self.caller_role(&mut tx, caller, id).await?;
            require_manager(own)?;
            require_owner_for_owner_change(own, &[current, Some(wanted)])?;
        } else if !is_same_user(caller, user) {
            // Only members may learn whether this user is a member.
            self.caller_role(&mut tx, caller, id).await?;
        }
        let delta = match current {
            None => {
                let role = role_of_new_member(&row, wanted);
                let new = (user.clone(), role);
                member_rows::insert(&mut tx, &row, &[new], self.ctx.now()).await?;
                MembersDelta::single(user, MemberTransition::Joined(role), 1)
            }
            Some(role) if role != wanted => {
                member_rows::set_role(&mut tx, id, user, wanted).await?;
                let was_owner = role == MemberRole::Owner;
                if was_owner && member_rows::find_next_owner(&mut tx, id).await?.is_some() {
                    let text = format!("{user} is the only owner; make another member owner first");
                    return Err(Error::InvalidRequest(text));
                }
                MembersDelta::single(user, MemberTransition::Present(wanted), 0)
            }
            Some(role) => MembersDelta::unchanged(user, MemberTransition::Present(role)),
        };
        self.finish_change(tx, row, delta).await
    }

    /// Commits the transaction if a row changed, and publishes the change in either case.
    async fn finish_change(
        &self,
        mut tx: WriteTransaction,
        mut row: ConversationRow,
        delta: MembersDelta,
    ) -> Result<ConversationRow> {
        let tx = match delta.count_delta {
            Some(count_delta) => {
                row = rows::adjust_member_count(&mut tx, &row.id, count_delta).await?;
                Some(tx)
            }
            None => {
                // The rollback undoes the increment of the lock.
                row.members_version -= 1;
                drop(tx);
                None
            }
        };
        let change = MembershipChange {
            users: delta.users,
            ..row.membership_change()
        };
        self.commit_and_publish(tx, change).await?;
        Ok(row)
    }
}

/// A new member of an empty conversation becomes its owner.
const fn role_of_new_member(row: &ConversationRow, role: MemberRole) -> MemberRole {
    match row.member_count {
        0 => MemberRole::Owner,
        _ => role,
    }
}

fn require_not_direct(row: &ConversationRow) -> Result<()> {
    if row.kind == ConversationKind::Direct {
        let text = "the members of a direct conversation cannot change; mute or delete the conversation instead";
        return Err(Error::Forbidden(text.to_owned()));
    }
    Ok(())
}

const fn join_refusal(kind: ConversationKind) -> &'static str {
    match kind {
        ConversationKind::Direct => "a direct conversation cannot be joined",
        ConversationKind::Group => {
            "the group is not open; ask an owner or admin of the group to add you"
        }
        ConversationKind::Support => "only admins and services can join a support conversation",
    }
}
