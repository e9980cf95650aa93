//! Visitors: people without an account, where they are let in. They read, and write nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::Sessions;
use super::session::Session;
use crate::access::{Caller, Role};
use crate::error::{Error, Result};
use crate::ids::UserId;
use crate::keys::TtlName;

/// Signs the tokens of visitors; whoever knows the secret provides it.
#[derive(Clone)]
pub struct Issuer(Arc<Sign>);

type Sign = dyn Fn(&UserId, Duration) -> Option<String> + Send + Sync;

impl Issuer {
    /// What signs a token of a visitor that lasts for a time; none where tokens are signed elsewhere.
    pub fn new(sign: impl Fn(&UserId, Duration) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issuer")
    }
}

impl Sessions {
    /// A new visitor: their token and their session, which lasts as long as the token at most.
    pub async fn visit(
        &self,
        stranger: &Caller,
        device: Option<&str>,
    ) -> Result<(String, Session)> {
        if !self.options.anonymous {
            let text = "visitors without an account are not let in here (`sessions.anonymous`)";
            return Err(Error::Forbidden(text.into()));
        }
        let name = format!("visitor-{}", Uuid::from_u128(rand::random()).simple());
        let visitor = UserId::new(name).expect("letters, digits and a hyphen are an id");
        let lasts = self.ctx.keys().ttl(TtlName::Session);
        let issuer = self.options.issuer.as_ref();
        let token = issuer.and_then(|issuer| (issuer.0)(&visitor, lasts));
        let Some(token) = token else {
            let text = "tokens are signed elsewhere: let your issuer sign one with `anon: true`";
            return Err(Error::Forbidden(text.into()));
        };
        let caller = Caller {
            user: Some(visitor),
            role: Role::User,
            anonymous: true,
            issued_at: Some(self.ctx.now().ms()),
            ..stranger.clone()
        };
        let session = self.begin(&caller, device).await?;
        Ok((token, session))
    }
}
