//! Who may change what in a conversation.
//!
//! Always true: admins and services may what owners may, in every conversation.

use super::member_rows::Member;
use super::words::MemberRole;
use crate::access::{Caller, Role};
use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};

/// Whether the caller may what owners may, everywhere.
pub(super) fn rules(caller: &Caller) -> bool {
    caller.role != Role::User
}

/// There is no such conversation; somebody without rights learns only that they are not in it.
pub(super) fn missing(caller: &Caller, conversation: &ConversationId) -> Error {
    if rules(caller) {
        Error::NotFound(format!("there is no conversation {conversation}"))
    } else {
        Error::NotAMember(conversation.clone())
    }
}

/// What the caller may do, by their row: their role, or that of an owner.
pub(super) fn role(
    caller: &Caller,
    conversation: &ConversationId,
    own: Option<&Member>,
) -> Result<MemberRole> {
    if rules(caller) {
        return Ok(MemberRole::Owner);
    }
    let own = own.ok_or_else(|| Error::NotAMember(conversation.clone()))?;
    Ok(own.role)
}

/// Refuses those who are neither owner nor admin.
pub(super) fn manages(role: MemberRole) -> Result<()> {
    if role == MemberRole::Member {
        let text = "only owners and admins of a conversation change it or its members";
        return Err(Error::Forbidden(text.to_owned()));
    }
    Ok(())
}

/// Refuses admins where an owner is made, changed or removed.
pub(super) fn owners_by_owners(role: MemberRole, concerned: &[Option<MemberRole>]) -> Result<()> {
    if role != MemberRole::Owner && concerned.contains(&Some(MemberRole::Owner)) {
        let text = "only owners make, change or remove owners";
        return Err(Error::Forbidden(text.to_owned()));
    }
    Ok(())
}

/// Whether the caller is this user.
pub(super) fn is(caller: &Caller, user: &UserId) -> bool {
    caller.user.as_ref() == Some(user)
}
