//! Visitors: people without an account, where they are let in. They read, and write nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::Sessions;
use super::session::UserSession;
use crate::access::{Caller, Role};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::keys::TtlName;

/// Signs the tokens of visitors; whoever knows the secret provides it.
#[derive(Clone)]
pub struct VisitorTokenIssuer(Arc<SignVisitorToken>);

type SignVisitorToken = dyn Fn(&UserId, Duration) -> Option<String> + Send + Sync;

impl VisitorTokenIssuer {
    /// What signs a token of a visitor that lasts for a time; none where tokens are signed elsewhere.
    pub fn new(sign: impl Fn(&UserId, Duration) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }
}

impl fmt::Debug for VisitorTokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issuer")
    }
}

impl Sessions {
    /// A new visitor: their token and their session, which lasts as long as the token at most.
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
