//! Claims of a signed token, and the checks that turn them into a [`Caller`].
//!
//! Invariants:
//! 1. A token is valid from [`LEEWAY_MS`] before `nbf` and `iat` until just before [`LEEWAY_MS`] after `exp`.
//! 2. A token of a user or an admin has the claims `sub` and `iat`; a logout compares `iat` to reject older tokens. A
//!    token of a service needs neither.

use std::time::Duration;

use parlor_chat::api::caller::{Caller, Role};
use parlor_chat::ids::UserId;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::config::AuthConfig;
use super::error::AuthError;

/// Maximum difference between the clocks of the issuer and the server, in milliseconds.
pub const LEEWAY_MS: u64 = 30_000;
/// Maximum length of a display name, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Start of the year 10000, in seconds since 1970: ISO 8601 has four digits for the year.
const MAX_TIME_SECS: f64 = 253_402_300_800.0;

/// Content of a token to issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// User of the token; `None` for a service.
    pub user: Option<UserId>,
    /// Display name.
    pub name: Option<String>,
    /// Role, which determines the permitted operations.
    pub role: Role,
    /// True for a visitor without an account.
    pub anonymous: bool,
    /// Lifetime; rounded up to whole seconds, at least one.
    pub ttl: Duration,
}

/// The claims that the server reads. `null` counts as missing.
#[derive(Deserialize)]
pub(super) struct TokenClaims {
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

/// Required values of the claims `aud` and `iss`.
#[derive(Clone, Debug)]
pub(super) struct ClaimRules {
    audience: Option<String>,
    issuer: Option<String>,
}

impl ClaimRules {
    pub(super) fn new(config: &AuthConfig) -> Self {
        Self {
            audience: config.audience.clone(),
            issuer: config.issuer.clone(),
        }
    }

    /// Creates the claims that [`ClaimRules::check_claims`] reads back as this grant.
    pub(super) fn claims_for(&self, grant: &TokenGrant, now: u64) -> Value {
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

    /// Checks the claims at the time `now` and returns the caller.
    pub(super) fn check_claims(&self, claims: &TokenClaims, now: u64) -> Result<Caller, AuthError> {
        let expires_at = time_claim_ms("exp", &claims.exp)?.ok_or_else(|| missing_claim("exp"))?;
        let issued_at = time_claim_ms("iat", &claims.iat)?;
        if now >= expires_at.saturating_add(LEEWAY_MS) {
            return Err(AuthError::Expired);
        }
        let begins = time_claim_ms("nbf", &claims.nbf)?
            .max(issued_at)
            .unwrap_or(0);
        if begins > now.saturating_add(LEEWAY_MS) {
            return Err(AuthError::NotYetValid);
        }
        self.check_audience_and_issuer(claims)?;
        let role = role_claim(claims)?;
        let anonymous = match &claims.anon {
            None => false,
            Some(Value::Bool(anonymous)) => *anonymous,
            Some(_) => return Err(AuthError::claim("anon", "is not a boolean")),
        };
        if anonymous && role != Role::User {
            let problem = format!(
                "is true, but the role is `{}`; only users can be anonymous",
                role.name()
            );
            return Err(AuthError::claim("anon", problem));
        }
        let subject = text_claim("sub", &claims.sub)?;
        let mut name = name_claim("name", &claims.name)?;
        let user = if role == Role::Service {
            if name.is_none() {
                name = name_claim("sub", &claims.sub)?;
            }
            None
        } else {
            if issued_at.is_none() {
                return Err(missing_claim("iat"));
            }
            let subject = subject.ok_or_else(|| missing_claim("sub"))?;
            Some(UserId::new(subject).map_err(|error| {
                AuthError::claim("sub", format!("is not a valid user id: {error}"))
            })?)
        };
        Ok(Caller {
            user,
            name: name.map(str::to_owned),
            role,
            anonymous,
            issued_at,
            expires_at,
            ip_address: None,
        })
    }

    fn check_audience_and_issuer(&self, claims: &TokenClaims) -> Result<(), AuthError> {
        if let Some(audience) = &self.audience {
            let fits = match &claims.aud {
                Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience)),
                one => one.as_ref().and_then(Value::as_str) == Some(audience),
            };
            if !fits {
                return Err(AuthError::claim("aud", "is not the configured audience"));
            }
        }
        match &self.issuer {
            Some(issuer) if claims.iss.as_ref().and_then(Value::as_str) != Some(issuer) => {
                Err(AuthError::claim("iss", "is not the configured issuer"))
            }
            _ => Ok(()),
        }
    }
}

fn role_claim(claims: &TokenClaims) -> Result<Role, AuthError> {
    let named = text_claim("role", &claims.role)?.map_or(Some(Role::User), Role::parse);
    named.ok_or_else(|| AuthError::claim("role", "is not one of user, admin, service"))
}

fn missing_claim(claim: &'static str) -> AuthError {
    AuthError::claim(claim, "is missing")
}

/// Reads a claim as a display name; a blank text counts as missing.
fn name_claim<'a>(
    claim: &'static str,
    value: &'a Option<Value>,
) -> Result<Option<&'a str>, AuthError> {
    match text_claim(claim, value)?.filter(|name| !name.trim().is_empty()) {
        Some(name) if name.len() > MAX_NAME_BYTES => {
            let problem = format!("is longer than {MAX_NAME_BYTES} bytes");
            Err(AuthError::claim(claim, problem))
        }
        name => Ok(name),
    }
}

fn text_claim<'a>(
    claim: &'static str,
    value: &'a Option<Value>,
) -> Result<Option<&'a str>, AuthError> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(AuthError::claim(claim, "is not a string")),
    }
}

/// Reads a claim as a time and converts it to milliseconds. Tokens carry seconds, also fractional ones.
fn time_claim_ms(claim: &'static str, value: &Option<Value>) -> Result<Option<u64>, AuthError> {
    match value {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if (0.0..MAX_TIME_SECS).contains(&seconds) => {
                Ok(Some((seconds * 1_000.0) as u64))
            }
            _ => Err(AuthError::claim(claim, "is not a time in seconds")),
        },
    }
}
