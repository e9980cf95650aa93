//! Changes of members: join, remove, add, change a role, mute.
//!
//! Invariants:
//! 1. The caller is authorized before the conversation's row is locked. A call that changes nothing ends there.
//! 2. A change is decided again and written in one transaction that holds the lock. Muting does not change membership and
//!    takes no lock.

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

impl Conversations {
    /// Adds the caller: to an open group, as a service to any group, or as an admin or service to a support
    /// conversation.
    pub(super) async fn join_conversation(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<ConversationRow> {
        let user = caller.require_user()?;
        let row = self.find_conversation(id).await?;
        let row = row.ok_or_else(|| does_not_exist(id))?;
        if self.find_member(id, user).await?.is_some() {
            return Ok(row);
        }
        role_of_joining(caller, &row)?;
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
        let row = row.ok_or_else(|| does_not_exist(id))?;
        if member_rows::find_in(&mut tx, id, user).await?.is_some() {
            return Ok(row.without_version_bump());
        }
        let role = role_of_new_member(&row, role_of_joining(caller, &row)?);
        member_rows::insert(&mut tx, &row, &[(user.clone(), role)], self.ctx.now()).await?;
        let joined = vec![(user.clone(), MemberTransition::Joined(role))];
        self.finish_change(tx, &row.id, joined, 1).await
    }

    /// Removes a member. Repeating the call has no effect.
    pub(super) async fn remove_member(
        &self,
        caller: &Caller,
        id: &ConversationId,
        user: &UserId,
    ) -> Result<ConversationRow> {
        let row = self.find_existing(caller, id).await?;
        let member = self.find_member(id, user).await?;
        if !is_same_user(caller, user) {
            authorize_removal(self.current_role(caller, id).await?, member.as_ref())?;
        }
        if member.is_none() {
            return Ok(row);
        }
        require_not_direct(&row)?;
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
            authorize_removal(role, member.as_ref())?;
        }
        let Some(member) = member else {
            return Ok(row.without_version_bump());
        };
        require_not_direct(&row)?;
        member_rows::delete(&mut tx, id, user).await?;
        let mut changed = vec![(user.clone(), MemberTransition::Left)];
        // This query reads all members, so it runs only if an owner leaves.
        if member.role == MemberRole::Owner
            && let Some(heir) = member_rows::find_next_owner(&mut tx, id).await?
        {
            member_rows::set_role(&mut tx, id, &heir.user_id, MemberRole::Owner).await?;
            let transition = MemberTransition::Present(MemberRole::Owner);
            changed.push((heir.user_id, transition));
        }
        self.finish_change(tx, &row.id, changed, -1).await
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
        let row = self.find_existing(caller, id).await?;
        let current = self.find_member(id, user).await?.map(|it| it.role);
        let wanted = role.or(current).unwrap_or(MemberRole::Member);
        if current != Some(wanted) {
            require_not_direct(&row)?;
            authorize_role(self.current_role(caller, id).await?, current, wanted)?;
            retry_on_conflict!(self.put_once(caller, id, user, role))?;
        } else if !is_same_user(caller, user) {
            // Only members may learn whether this user is a member.
            self.current_role(caller, id).await?;
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
        if current == Some(wanted) {
            return Ok(row.without_version_bump());
        }
        require_not_direct(&row)?;
        authorize_role(
            self.caller_role(&mut tx, caller, id).await?,
            current,
            wanted,
        )?;
        let (transition, count_delta) = match current {
            None => {
                let role = role_of_new_member(&row, wanted);
                let new = (user.clone(), role);
                member_rows::insert(&mut tx, &row, &[new], self.ctx.now()).await?;
                (MemberTransition::Joined(role), 1)
            }
            Some(role) => {
                member_rows::set_role(&mut tx, id, user, wanted).await?;
                let was_owner = role == MemberRole::Owner;
                if was_owner && member_rows::find_next_owner(&mut tx, id).await?.is_some() {
                    let text = format!("{user} is the only owner; make another member owner first");
                    return Err(Error::InvalidRequest(text));
                }
                (MemberTransition::Present(wanted), 0)
            }
        };
        let changed = vec![(user.clone(), transition)];
        self.finish_change(tx, &row.id, changed, count_delta).await
    }

    /// Commits the transaction and publishes the change.
    async fn finish_change(
        &self,
        mut tx: WriteTransaction,
        id: &ConversationId,
        users: Vec<(UserId, MemberTransition)>,
        count_delta: i64,
    ) -> Result<ConversationRow> {
        let row = rows::adjust_member_count(&mut tx, id, count_delta).await?;
        let change = MembershipChange {
            users,
            ..row.membership_change()
        };
        self.commit_and_publish(tx, &change).await?;
        Ok(row)
    }
}

fn does_not_exist(id: &ConversationId) -> Error {
    Error::NotFound(format!("conversation {id} does not exist"))
}

/// A new member of an empty conversation becomes its owner.
const fn role_of_new_member(row: &ConversationRow, role: MemberRole) -> MemberRole {
    match row.member_count {
        0 => MemberRole::Owner,
        _ => role,
    }
}

/// Role with which the caller may join the conversation.
fn role_of_joining(caller: &Caller, row: &ConversationRow) -> Result<MemberRole> {
    let service = caller.role == Role::Service;
    let role = match row.kind {
        ConversationKind::Direct => None,
        ConversationKind::Group => (service || row.open != 0).then_some(MemberRole::Member),
        ConversationKind::Support => is_admin_or_service(caller).then_some(MemberRole::Admin),
    };
    role.ok_or_else(|| Error::Forbidden(join_refusal(row.kind).to_owned()))
}

/// Whether a caller with this role may remove this member.
fn authorize_removal(role: MemberRole, member: Option<&MemberRow>) -> Result<()> {
    require_manager(role)?;
    require_owner_for_owner_change(role, &[member.map(|it| it.role)])
}

/// Whether a caller with this role may give a user another role.
fn authorize_role(own: MemberRole, current: Option<MemberRole>, wanted: MemberRole) -> Result<()> {
    require_manager(own)?;
    require_owner_for_owner_change(own, &[current, Some(wanted)])
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
