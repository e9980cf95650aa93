//! [`Caller`]: who makes a request, and what the caller is authorized to do.
//!
//! Invariants:
//! 1. A person acts only for themselves.
//! 2. A service acts for one user at a time, which the request names.
//! 3. Only admins and services administer other users.

use crate::api::error::{Error, Result};
use crate::ids::UserId;
use crate::keys::named_enum;

named_enum! {
    /// Role of a caller, which decides what the caller may do.
    pub enum Role {
        /// A person without further rights.
        User = "user",
        /// A person who may administer other users.
        Admin = "admin",
        /// Another service, which may act for any user.
        Service = "service",
    }
}

/// The caller of a request, taken from an accepted token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User of the request: the owner of the token, or the user that a service acts for.
    pub user: Option<UserId>,
    /// Display name from the token. For a service without a name it is the `sub` of the token.
    pub name: Option<String>,
    /// Role of the caller.
    pub role: Role,
    /// True for a visitor without an account, who has read-only access.
    pub anonymous: bool,
    /// Time at which the token was issued, in milliseconds since the Unix epoch. Always set for a person.
    pub issued_at: Option<u64>,
    /// Time at which the token expires, in milliseconds since the Unix epoch, without leeway.
    pub expires_at: u64,
    /// IP address of the caller, if known.
    pub ip_address: Option<std::net::IpAddr>,
}

impl Caller {
    /// A caller without a token, who may only create a visitor session.
    pub fn unauthenticated(ip_address: Option<std::net::IpAddr>) -> Self {
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

    /// Returns the caller for a request that names a user. A service acts for any user; a person may only name
    /// themselves.
    pub fn on_behalf_of(mut self, user: &str) -> Result<Self> {
        let named = UserId::new(user)?;
        if self.role == Role::Service {
            // The display name of the service is not the display name of the user.
            self.name = None;
            self.user = Some(named);
            return Ok(self);
        }
        self.require_same_user(&named)?;
        Ok(self)
    }

    /// The user that the request is about. Fails if a service has not named one.
    pub fn require_user(&self) -> Result<&UserId> {
        self.user.as_ref().ok_or(Error::UserRequired)
    }

    /// Parses a user id, or takes the user of the caller if `user` is empty, and checks that the caller may act for
    /// this user.
    pub fn authorize_acting_for(&self, user: &str) -> Result<UserId> {
        if user.is_empty() {
            return self.require_user().cloned();
        }
        let user = UserId::new(user)?;
        self.require_same_user(&user)?;
        Ok(user)
    }

    /// Parses a user id and checks that the caller is this user, an admin or a service that acts for no other user.
    pub fn authorize_self_or_admin(&self, user: &str) -> Result<UserId> {
        let user = UserId::new(user)?;
        if self.role != Role::Admin {
            self.require_same_user(&user)?;
        }
        Ok(user)
    }

    /// Fails for visitors, who have read-only access.
    pub fn require_write_access(&self) -> Result<()> {
        if self.anonymous {
            return Err(Error::ReadOnlySession);
        }
        Ok(())
    }

    /// Fails unless the caller is an admin or a service. `action` completes "only admins and services may …".
    pub fn require_admin_or_service(&self, action: &str) -> Result<()> {
        match self.role {
            Role::Admin | Role::Service => Ok(()),
            Role::User => Err(Error::Forbidden(format!(
                "only admins and services may {action}"
            ))),
        }
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
    use crate::api::error_code::ErrorCode;

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

    fn code<T: std::fmt::Debug>(answer: Result<T>) -> ErrorCode {
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
            assert_eq!(
                code(alice.authorize_acting_for("bob")),
                ErrorCode::Forbidden
            );
            assert_eq!(
                code(alice.clone().on_behalf_of("bob")),
                ErrorCode::Forbidden
            );
            assert!(alice.on_behalf_of("alice").is_ok());
        }
    }

    #[test]
    fn an_admin_administers_others_and_a_user_does_not() {
        assert!(caller(Role::Admin).authorize_self_or_admin("bob").is_ok());
        assert!(caller(Role::User).authorize_self_or_admin("alice").is_ok());
        assert_eq!(
            code(caller(Role::User).authorize_self_or_admin("bob")),
            ErrorCode::Forbidden
        );
    }

    #[test]
    fn a_service_acts_for_whom_it_names_and_for_nobody_else() {
        let service = caller(Role::Service);
        assert_eq!(
            code(service.authorize_acting_for("")),
            ErrorCode::UserRequired
        );
        assert_eq!(code(service.require_user()), ErrorCode::UserRequired);
        assert!(service.authorize_acting_for("bob").is_ok());
        let as_bob = service.on_behalf_of("bob").expect("a service may");
        assert_eq!(as_bob.require_user().expect("bob").as_str(), "bob");
        assert_eq!(as_bob.name, None);
        assert_eq!(
            code(as_bob.authorize_acting_for("alice")),
            ErrorCode::Forbidden
        );
        assert_eq!(
            code(as_bob.authorize_self_or_admin("alice")),
            ErrorCode::Forbidden
        );
    }

    #[test]
    fn a_wrong_id_is_named_before_it_is_forbidden() {
        assert_eq!(
            code(caller(Role::User).authorize_acting_for("a b")),
            ErrorCode::InvalidId
        );
        assert_eq!(
            code(caller(Role::Service).on_behalf_of("")),
            ErrorCode::InvalidId
        );
    }

    #[test]
    fn every_role_has_a_name_that_leads_back_to_it() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.name()), Some(*role));
        }
    }
}
