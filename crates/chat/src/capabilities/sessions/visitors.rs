//! Sessions of visitors, who have no account and read-only access.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::LAST_SEEN_INTERVAL;
use super::Sessions;
use super::model::UserSession;
use super::rows;
use crate::api::caller::{Caller, Role};
use crate::api::error::{Error, Result};
use crate::ids::UserId;
use crate::keys::TtlName;

/// Signs the tokens of visitors. The server provides the function, because it has the secret.
#[derive(Clone)]
pub struct VisitorTokenIssuer(Arc<SignVisitorToken>);

type SignVisitorToken = dyn Fn(&UserId, Duration) -> Option<String> + Send + Sync;

impl VisitorTokenIssuer {
    /// Creates an issuer from a function that signs a token for a visitor with this lifetime. It returns `None` if the
    /// server does not sign tokens.
    pub fn new(sign: impl Fn(&UserId, Duration) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }
}

impl fmt::Debug for VisitorTokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issuer")
    }
}

/// Maximum number of sessions that one statement removes.
const MAX_REMOVED_PER_STATEMENT: u32 = 500;

impl Sessions {
    /// Removes the rows of visitors whose session has expired. Returns their number. Every node calls this every 10
    /// minutes; repeating it has no effect.
    pub async fn remove_expired_visitors(&self) -> Result<u64> {
        // The row may show an earlier use than the hash.
        let unused_since = self.expiry_cutoff().saturating_sub(LAST_SEEN_INTERVAL);
        let mut removed = 0;
        loop {
            let limit = MAX_REMOVED_PER_STATEMENT;
            let page = rows::delete_visitors(&self.database, unused_since, limit).await?;
            removed += page;
            if page < u64::from(limit) {
                return Ok(removed);
            }
        }
    }

    /// Creates a visitor, a token and a session. The token is valid for one session TTL.
    pub async fn begin_visitor_session(
        &self,
        stranger: &Caller,
        device: Option<&str>,
    ) -> Result<(String, UserSession)> {
        if !self.options.allow_visitors {
            let text =
                "visitors without an account are not allowed on this server (`sessions.anonymous`)";
            return Err(Error::Forbidden(text.into()));
        }
        let name = format!("visitor-{}", Uuid::from_u128(rand::random()).simple());
        let visitor = UserId::new(name).expect("letters, digits and a hyphen are a valid id");
        let lasts = self.ctx.keys().ttl(TtlName::Session);
        let issuer = self.options.visitor_token_issuer.as_ref();
        let token = issuer.and_then(|issuer| (issuer.0)(&visitor, lasts));
        let Some(token) = token else {
            let text =
                "this server does not sign tokens; let your issuer sign one with `anon: true`";
            return Err(Error::Forbidden(text.into()));
        };
        let caller = Caller {
            user: Some(visitor),
            role: Role::User,
            anonymous: true,
            issued_at: Some(self.ctx.now().as_millis()),
            ..stranger.clone()
        };
        let session = self.begin(&caller, device).await?;
        Ok((token, session))
    }
}
