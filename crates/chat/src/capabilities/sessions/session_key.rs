//! Script calls that read and write the session hash.

use parlor_store::{LuaScript, script};

use super::Sessions;
use super::model::UserSession;
use super::native;
use super::rows::{UserSessionRow, to_unix_seconds};
use crate::api::error::Result;
use crate::clock::{Timestamp, duration_millis};
use crate::ids::{DeviceId, UserId};
use crate::keys::TtlName;

static READ_SESSION: LuaScript =
    script!("scripts/read_session.lua").with_native(native::read_session);
static WRITE_SESSION: LuaScript =
    script!("scripts/write_session.lua").with_native(native::write_session);

/// What the store knows about a session.
#[derive(Debug)]
pub(super) enum StoredSession {
    /// The hash was not compared with the rows in this store epoch.
    Unverified,
    /// The token is revoked.
    TokenRevoked,
    /// The session was deleted or never existed.
    Missing,
    /// The session exists.
    Present(UserSession),
}

/// Why the hash is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum SessionWrite {
    /// A session begins, with a token that was issued at this time.
    Begin(Timestamp),
    /// The hash is rebuilt from the rows.
    Rebuild,
    /// The rows have changed.
    Overwrite,
}

/// Result of the write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionWriteResult {
    /// The hash was written. Contains the device of the session that was there before.
    Written(Option<DeviceId>),
    /// The user is blocked.
    Blocked,
    /// The token is revoked.
    TokenRevoked,
    /// Another writer was faster: read the session again.
    Conflict,
}

impl Sessions {
    fn session_ttl_ms(&self) -> u64 {
        duration_millis(self.ctx.keys().ttl(TtlName::Session))
    }

    /// A session that was last used before this time has expired.
    pub(super) fn expiry_cutoff(&self) -> Timestamp {
        Timestamp(
            self.ctx
                .now()
                .as_millis()
                .saturating_sub(self.session_ttl_ms()),
        )
    }

    fn session_keys(&self, user: &UserId) -> [crate::keys::Key; 2] {
        let keys = self.ctx.keys();
        [keys.session(user), keys.session_check(user)]
    }

    /// Reads the session hash. With `renew`, also sets its last use to this time and extends its TTL.
    pub(super) async fn read_session_key(
        &self,
        user: &UserId,
        issued: Option<Timestamp>,
        renew: Option<Timestamp>,
    ) -> Result<StoredSession> {
        let call = READ_SESSION
            .keys(&self.session_keys(user))
            .arg(self.ctx.store_epoch())
            .arg(issued.map_or(String::new(), |at| {
                to_unix_seconds(at.as_millis()).to_string()
            }))
            .arg(renew.map_or(String::new(), |at| at.as_millis().to_string()))
            .arg(self.session_ttl_ms());
        // The renewal need not be durable, because the row contains `last_seen` as well.
        let store = self.ctx.store().idempotent().with_volatile_updates();
        let reply: Vec<String> = call.run(&store).await?;
        let words: Vec<&str> = reply.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["present", status, active, device, login, seen, address] => {
                let held = [status, active, device, login, seen, address];
                StoredSession::Present(UserSession::from_hash_fields(user, held))
            }
            ["missing"] => StoredSession::Missing,
            ["revoked"] => StoredSession::TokenRevoked,
            _ => StoredSession::Unverified,
        })
    }

    /// Writes the session hash, or deletes it if `session` is `None`.
    pub(super) async fn write_session_key(
        &self,
        user: &UserId,
        row: &UserSessionRow,
        session: Option<&UserSession>,
        reason: SessionWrite,
    ) -> Result<SessionWriteResult> {
        let (mode, issued) = match reason {
            SessionWrite::Begin(at) => ("begin", to_unix_seconds(at.as_millis())),
            SessionWrite::Rebuild => ("rebuild", 0),
            SessionWrite::Overwrite => ("overwrite", 0),
        };
        let mut call = WRITE_SESSION
            .keys(&self.session_keys(user))
            .arg(self.ctx.store_epoch())
            .arg(row.revoked_before_seconds())
            .arg(self.session_ttl_ms())
            .arg(mode)
            .arg(issued)
            .arg(u8::from(!row.has_user_row()));
        for (field, value) in session.iter().flat_map(|session| session.to_hash_fields()) {
            call = call.arg(field).arg(value);
        }
        let reply: Vec<String> = call.run(&self.ctx.store().idempotent()).await?;
        let words: Vec<&str> = reply.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["written", before] => SessionWriteResult::Written(DeviceId::new(before).ok()),
            ["blocked"] => SessionWriteResult::Blocked,
            ["revoked"] => SessionWriteResult::TokenRevoked,
            _ => SessionWriteResult::Conflict,
        })
    }
}
