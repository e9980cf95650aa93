//! Who calls, and for whom they may act.
//!
//! Always true: a person acts for themselves; a service acts for one user at a time, whom it names; administering is for
//! admins and services.

use crate::error::{Error, Result};
use crate::ids::{ConversationId, UserId};
use crate::membership::Members;

/// What a caller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Act for themselves.
    #[default]
    User,
    /// Act for themselves, and administer.
    Admin,
    /// Act for any user.
    Service,
}

impl Role {
    /// Every role.
    pub const ALL: &'static [Self] = &[Self::User, Self::Admin, Self::Service];

    /// How a token spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Admin => "admin",
            Self::Service => "service",
        }
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|role| role.name() == name)
    }
}

/// Who is calling, by a token that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The person, or the one for whom a service acts.
    pub user: Option<UserId>,
    /// What they are called. A service without a name is called by its `sub`.
    pub name: Option<String>,
    /// What they may do.
    pub role: Role,
    /// A visitor without an account.
    pub anonymous: bool,
    /// When the token was issued, in milliseconds since the Unix epoch. Always there for a person.
    pub issued_at: Option<u64>,
    /// When the token ends, in milliseconds since the Unix epoch, without leeway.
    pub expires_at: u64,
    /// Where the caller calls from, as far as it is known.
    pub ip_address: Option<std::net::IpAddr>,
}

impl Caller {
    /// Somebody who shows no token, and so may do nothing but come in.
    pub fn stranger(ip_address: Option<std::net::IpAddr>) -> Self {
        Self {
            user: None,
            name: None,
            role: Role::User,
            anonymous: true,
            issued_at: None,
            expires_at: u64::MAX,
            ip_address,
        }
    }

    /// The caller when a request names a user to act for: whom a service says, themselves for a person.
    pub fn on_behalf_of(mut self, user: &str) -> Result<Self> {
        let named = UserId::new(user)?;
        if self.role == Role::Service {
            // What the service is called is not what the user is called.
            self.name = None;
            self.user = Some(named);
            return Ok(self);
        }
        self.require_same_user(&named)?;
        Ok(self)
    }

    /// The one who acts.
    pub fn user(&self) -> Result<&UserId> {
        self.user.as_ref().ok_or(Error::UserRequired)
    }

    /// The user of this id, or the one who acts if it is empty, for whom the caller must be allowed to act.
    pub fn authorize_acting_for(&self, user: &str) -> Result<UserId> {
        if user.is_empty() {
            return self.user().cloned();
        }
        let user = UserId::new(user)?;
        self.require_same_user(&user)?;
        Ok(user)
    }

    /// The user of this id, whom the caller must be or be allowed to administer.
    pub fn authorize_self_or_admin(&self, user: &str) -> Result<UserId> {
        let user = UserId::new(user)?;
        if self.role != Role::Admin {
            self.require_same_user(&user)?;
        }
        Ok(user)
    }

    /// The conversation of this id, of which the caller must be a member. A service is as good as one.
    pub async fn authorize_member(
        &self,
        conversation: &str,
        members: &dyn Members,
    ) -> Result<ConversationId> {
        let conversation = ConversationId::new(conversation)?;
        if self.role != Role::Service && !members.is_member(&conversation, self.user()?).await? {
            return Err(Error::NotAMember(conversation));
        }
        Ok(conversation)
    }

    /// Refuses those who may only read.
    pub fn require_write_access(&self) -> Result<()> {
        if self.anonymous {
            return Err(Error::ReadOnlySession);
        }
        Ok(())
    }

    fn require_same_user(&self, user: &UserId) -> Result<()> {
        match &self.user {
            Some(own) if own == user => Ok(()),
            None if self.role == Role::Service => Ok(()),
            _ => Err(Error::Forbidden(format!(
                "the caller may not act for {user}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    fn caller(role: Role) -> Caller {
        Caller {
            user: (role != Role::Service).then(|| UserId::new("alice").expect("an id")),
            name: Some("Some Name".into()),
            role,
            anonymous: false,
            issued_at: Some(0),
            expires_at: u64::MAX,
            ip_address: None,
        }
    }

    fn code<T: std::fmt::Debug>(answer: Result<T>) -> Code {
        answer.expect_err("the call is rejected").code()
    }

    #[test]
    fn a_person_acts_for_themselves_alone() {
        for role in [Role::User, Role::Admin] {
            let alice = caller(role);
            assert_eq!(
                alice
                    .authorize_acting_for("alice")
                    .expect("alice may act for herself")
                    .as_str(),
                "alice"
            );
            assert_eq!(
                alice
                    .authorize_acting_for("")
                    .expect("alice may act for herself")
                    .as_str(),
                "alice"
            );
            assert_eq!(code(alice.authorize_acting_for("bob")), Code::Forbidden);
            assert_eq!(code(alice.clone().on_behalf_of("bob")), Code::Forbidden);
            assert!(alice.on_behalf_of("alice").is_ok());
        }
    }

    #[test]
    fn an_admin_administers_others_and_a_user_does_not() {
        assert!(caller(Role::Admin).authorize_self_or_admin("bob").is_ok());
        assert!(caller(Role::User).authorize_self_or_admin("alice").is_ok());
        assert_eq!(
            code(caller(Role::User).authorize_self_or_admin("bob")),
            Code::Forbidden
        );
    }

    #[test]
    fn a_service_acts_for_whom_it_names_and_for_nobody_else() {
        let service = caller(Role::Service);
        assert_eq!(code(service.authorize_acting_for("")), Code::UserRequired);
        assert_eq!(code(service.user()), Code::UserRequired);
        assert!(service.authorize_acting_for("bob").is_ok());
        let as_bob = service.on_behalf_of("bob").expect("a service may");
        assert_eq!(as_bob.user().expect("bob").as_str(), "bob");
        assert_eq!(as_bob.name, None);
        assert_eq!(code(as_bob.authorize_acting_for("alice")), Code::Forbidden);
        assert_eq!(
            code(as_bob.authorize_self_or_admin("alice")),
            Code::Forbidden
        );
    }

    #[test]
    fn a_wrong_id_is_named_before_it_is_forbidden() {
        assert_eq!(
            code(caller(Role::User).authorize_acting_for("a b")),
            Code::InvalidId
        );
        assert_eq!(
            code(caller(Role::Service).on_behalf_of("")),
            Code::InvalidId
        );
    }

    #[test]
    fn every_role_has_a_name_that_leads_back_to_it() {
        for role in Role::ALL {
            assert_eq!(Role::named(role.name()), Some(*role));
        }
    }
}
