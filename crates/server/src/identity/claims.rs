//! What a signed token says, and what follows from it.
//!
//! Always true:
//! 1. `now` is given; a token counts from [`LEEWAY_MS`] before `nbf` and `iat` until just before [`LEEWAY_MS`] after `exp`.
//! 2. A person (`user`, `admin`) has an id and an `iat`, by which a logout can tell older tokens; a service has neither need.

use std::time::Duration;

use parlor_chat::access::{Caller, Role};
use parlor_chat::ids::UserId;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::AuthConfig;
use super::error::AuthError;

/// How far the clocks of issuer and server may be apart, in milliseconds.
pub const LEEWAY_MS: u64 = 30_000;
/// Most bytes of a name.
pub const MAX_NAME: usize = 256;
/// The year 10000, in seconds: later times cannot be written as ISO 8601.
const LATEST: f64 = 253_402_300_800.0;

/// What a new token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The person; a service needs none.
    pub user: Option<UserId>,
    /// What they are called.
    pub name: Option<String>,
    /// What they may do.
    pub role: Role,
    /// A visitor without an account.
    pub anonymous: bool,
    /// How long the token lives, in whole seconds and at least one.
    pub ttl: Duration,
}

/// What a token says, as far as it is asked for. `null` says nothing.
#[derive(Deserialize)]
pub(super) struct Claims {
    sub: Option<Value>,
    name: Option<Value>,
    role: Option<Value>,
    anon: Option<Value>,
    iat: Option<Value>,
    nbf: Option<Value>,
    exp: Option<Value>,
    aud: Option<Value>,
    iss: Option<Value>,
}

/// What is required beyond the signature.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    audience: Option<String>,
    issuer: Option<String>,
}

impl Rules {
    pub(super) fn new(config: &AuthConfig) -> Self {
        Self {
            audience: config.audience.clone(),
            issuer: config.issuer.clone(),
        }
    }

    /// The claims that [`Rules::caller`] will read as this grant.
    pub(super) fn claims(&self, grant: &Grant, now: u64) -> Value {
        let mut claims = Map::new();
        let mut put = |name: &str, value: Value| claims.insert(name.to_owned(), value);
        if let Some(user) = &grant.user {
            put("sub", user.as_str().into());
        }
        if let Some(name) = &grant.name {
            put("name", name.as_str().into());
        }
        put("role", grant.role.name().into());
        if grant.anonymous {
            put("anon", true.into());
        }
        let issued = now / 1_000;
        let seconds = u64::try_from(grant.ttl.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX);
        put("iat", issued.into());
        put("exp", issued.saturating_add(seconds.max(1)).into());
        if let Some(audience) = &self.audience {
            put("aud", audience.as_str().into());
        }
        if let Some(issuer) = &self.issuer {
            put("iss", issuer.as_str().into());
        }
        Value::Object(claims)
    }

    /// Who is calling, if the claims are in order at `now`.
    pub(super) fn caller(&self, claims: &Claims, now: u64) -> Result<Caller, AuthError> {
        let expires_at = time("exp", &claims.exp)?.ok_or_else(|| missing("exp"))?;
        let issued_at = time("iat", &claims.iat)?;
        if now >= expires_at.saturating_add(LEEWAY_MS) {
            return Err(AuthError::Expired);
        }
        let begins = time("nbf", &claims.nbf)?.max(issued_at).unwrap_or(0);
        if begins > now.saturating_add(LEEWAY_MS) {
            return Err(AuthError::NotYetValid);
        }
        self.check_issuer(claims)?;
        let role = role(claims)?;
        let anonymous = match &claims.anon {
            None => false,
            Some(Value::Bool(anonymous)) => *anonymous,
            Some(_) => return Err(AuthError::claim("anon", "is neither true nor false")),
        };
        if anonymous && role != Role::User {
            let problem = format!("is true, which the role `{}` cannot be", role.name());
            return Err(AuthError::claim("anon", problem));
        }
        let subject = text("sub", &claims.sub)?;
        let mut name = called("name", &claims.name)?;
        let user = if role == Role::Service {
            if name.is_none() {
                name = called("sub", &claims.sub)?;
            }
            None
        } else {
            if issued_at.is_none() {
                return Err(missing("iat"));
            }
            let subject = subject.ok_or_else(|| missing("sub"))?;
            Some(
                UserId::new(subject)
                    .map_err(|error| AuthError::claim("sub", format!("is wrong: {error}")))?,
            )
        };
        Ok(Caller {
            user,
            name: name.map(str::to_owned),
            role,
            anonymous,
            issued_at,
            expires_at,
            address: None,
        })
    }

    fn check_issuer(&self, claims: &Claims) -> Result<(), AuthError> {
        if let Some(audience) = &self.audience {
            let fits = match &claims.aud {
                Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience)),
                one => one.as_ref().and_then(Value::as_str) == Some(audience),
            };
            if !fits {
                return Err(AuthError::claim(
                    "aud",
                    "is not the audience configured here",
                ));
            }
        }
        match &self.issuer {
            Some(issuer) if claims.iss.as_ref().and_then(Value::as_str) != Some(issuer) => {
                Err(AuthError::claim("iss", "is not the issuer configured here"))
            }
            _ => Ok(()),
        }
    }
}

fn role(claims: &Claims) -> Result<Role, AuthError> {
    let named = text("role", &claims.role)?.map_or(Some(Role::User), Role::named);
    named.ok_or_else(|| AuthError::claim("role", "is not one of user, admin, service"))
}

fn missing(claim: &'static str) -> AuthError {
    AuthError::claim(claim, "is missing")
}

/// A text that can stand for a name.
fn called<'a>(claim: &'static str, value: &'a Option<Value>) -> Result<Option<&'a str>, AuthError> {
    match text(claim, value)?.filter(|name| !name.trim().is_empty()) {
        Some(name) if name.len() > MAX_NAME => {
            let problem = format!("is longer than {MAX_NAME} bytes");
            Err(AuthError::claim(claim, problem))
        }
        name => Ok(name),
    }
}

fn text<'a>(claim: &'static str, value: &'a Option<Value>) -> Result<Option<&'a str>, AuthError> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(AuthError::claim(claim, "is not a text")),
    }
}

/// A time in milliseconds; tokens carry seconds, whole or not.
fn time(claim: &'static str, value: &Option<Value>) -> Result<Option<u64>, AuthError> {
    match value {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if (0.0..LATEST).contains(&seconds) => {
                Ok(Some((seconds * 1_000.0) as u64))
            }
            _ => Err(AuthError::claim(claim, "is not a time in seconds")),
        },
    }
}
