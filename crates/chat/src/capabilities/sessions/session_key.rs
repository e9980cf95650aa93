//! Script calls that read and write the session hash.

use std::sync::Once;

use parlor_store::{LuaScript, ScriptCall, script};
use tracing::warn;

use super::Sessions;
use super::model::UserSession;
use super::rows::{UserSessionRow, to_unix_seconds};
use super::scripts::native;
use super::session_hash::{HashField, SessionHash, SessionKeyContent, SyncRecord};
use crate::api::error::Result;
use crate::clock::{Timestamp, duration_millis};
use crate::ids::{DeviceId, UserId};
use crate::keys::{SessionLayout, TtlName};

static READ_SESSION: LuaScript =
    script!("scripts/read_session.lua").with_native(native::read_session);
static WRITE_SESSION: LuaScript =
    script!("scripts/write_session.lua").with_native(native::write_session);

/// State of a session in the store.
#[derive(Debug)]
pub(super) struct StoredSession {
    pub(super) verdict: SessionVerdict,
    pub(super) content: SessionKeyContent,
    /// Value of the check key; empty if it is missing.
    check_value: String,
    /// The parsed value: when the hash was last compared with the rows, and what it contained.
    pub(super) record: Option<SyncRecord>,
}

/// Whether the hash can be used without the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionVerdict {
    /// The hash is as it was when it was compared with the rows in this store epoch.
    Verified,
    /// The same, but the token is revoked.
    TokenRevoked,
    /// The rows decide.
    Unverified,
}

/// How the hash is written.
#[derive(Debug)]
pub(super) enum SessionWrite<'a> {
    /// A session begins, with a token that was issued at this time.
    Begin(&'a UserSession, Timestamp),
    /// These fields are written, perhaps none. The hash then agrees with the rows.
    Update(&'a StoredSession, Vec<HashField>),
    /// These fields are written. The hash has to be compared with the rows again.
    Unblock(&'a StoredSession, Vec<HashField>),
    /// The hash is deleted. Fields of other services stay.
    Delete(&'a StoredSession),
}

/// Result of the write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionWriteResult {
    /// The hash was written. Contains the device of the session that was there before.
    Written(Option<DeviceId>),
    /// The user was blocked meanwhile.
    Blocked,
    /// Another service has blocked the user.
    BlockedElsewhere,
    /// The token is revoked.
    TokenRevoked,
    /// The key is not a session.
    Foreign,
    /// The hash has changed, or was compared with the rows by another request: read it again.
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

    /// True if sessions are stored in rows only (`keys.session = off`).
    pub(super) fn has_rows_only(&self) -> bool {
        self.ctx.keys().settings().layouts.session == SessionLayout::Off
    }

    /// Reads the session hash. With `renew`, also sets its last use to this time and extends its TTL.
    pub(super) async fn read_session_key(
        &self,
        user: &UserId,
        issued: Option<Timestamp>,
        renew: Option<Timestamp>,
    ) -> Result<StoredSession> {
        if self.has_rows_only() {
            return Ok(StoredSession {
                verdict: SessionVerdict::Unverified,
                content: SessionKeyContent::Foreign,
                check_value: String::new(),
                record: None,
            });
        }
        let keys = self.session_keys(user);
        let call = READ_SESSION
            .keys(&keys)
            .arg(self.ctx.store_epoch())
            .arg(issued.map_or(String::new(), |at| {
                to_unix_seconds(at.as_millis()).to_string()
            }))
            .arg(renew.map_or(String::new(), |at| at.as_millis().to_string()))
            .arg(self.session_ttl_ms());
        // The renewal need not be durable, because the row contains `last_seen` as well.
        let store = self.ctx.store().idempotent().with_volatile_updates();
        let reply: Vec<Vec<u8>> = call.run(&store).await?;
        let stored = parse_reply(&reply);
        if matches!(stored.content, SessionKeyContent::Foreign) {
            warn_once_about_foreign_key(keys[0].as_str());
        }
        Ok(stored)
    }

    /// Writes the session hash. The row says which tokens are revoked.
    pub(super) async fn write_session_key(
        &self,
        user: &UserId,
        row: &UserSessionRow,
        write: SessionWrite<'_>,
    ) -> Result<SessionWriteResult> {
        if self.has_rows_only() {
            return Ok(SessionWriteResult::Foreign);
        }
        let call = WRITE_SESSION
            .keys(&self.session_keys(user))
            .arg(self.ctx.store_epoch())
            .arg(row.revoked_before_seconds())
            .arg(self.session_ttl_ms());
        let unchanged = |call: ScriptCall, stored: &StoredSession| {
            let hash = stored.content.session();
            let fingerprint = hash.map(SessionHash::fingerprint).unwrap_or_default();
            call.arg(fingerprint.as_str()).arg(&stored.check_value)
        };
        let (mut call, fields) = match write {
            SessionWrite::Begin(session, issued) => {
                let issued = to_unix_seconds(issued.as_millis());
                let fields = session.to_hash_fields().into();
                (call.arg("begin").arg(issued).arg(""), fields)
            }
            SessionWrite::Update(stored, fields) => (unchanged(call.arg("update"), stored), fields),
            SessionWrite::Unblock(stored, fields) => {
                (unchanged(call.arg("unblock"), stored), fields)
            }
            SessionWrite::Delete(stored) => {
                let call = unchanged(call.arg("delete"), stored);
                let call = SESSION_FIELDS
                    .iter()
                    .fold(call, |call, name| call.arg(*name));
                (call, Vec::new())
            }
        };
        for (field, value) in fields {
            call = call.arg(field).arg(value);
        }
        let reply: Vec<String> = call.run(&self.ctx.store().idempotent()).await?;
        let words: Vec<&str> = reply.iter().map(String::as_str).collect();
        Ok(match words[..] {
            ["written", before] => SessionWriteResult::Written(DeviceId::new(before).ok()),
            ["blocked"] => SessionWriteResult::Blocked,
            ["blocked_elsewhere"] => SessionWriteResult::BlockedElsewhere,
            ["revoked"] => SessionWriteResult::TokenRevoked,
            ["foreign"] => SessionWriteResult::Foreign,
            _ => SessionWriteResult::Conflict,
        })
    }
}

/// The documented fields.
const SESSION_FIELDS: [&str; 6] = [
    "device_id",
    "login_time",
    "last_seen",
    "status",
    "active",
    "ip_address",
];

/// Parses the reply of `read_session.lua`. Other services may have written bytes that are no text.
fn parse_reply(reply: &[Vec<u8>]) -> StoredSession {
    let text = |index: usize| {
        let bytes = reply.get(index).map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    };
    let content = match text(1).as_str() {
        "session" => SessionKeyContent::Session(SessionHash {
            status: text(3),
            active: text(4),
            device_id: text(5),
            login_time: text(6),
            last_seen: text(7),
            ip_address: text(8),
        }),
        "missing" => SessionKeyContent::Missing,
        _ => SessionKeyContent::Foreign,
    };
    let verdict = match text(0).as_str() {
        "verified" => SessionVerdict::Verified,
        "revoked" => SessionVerdict::TokenRevoked,
        _ => SessionVerdict::Unverified,
    };
    StoredSession {
        verdict,
        content,
        record: text(2).parse().ok(),
        check_value: text(2),
    }
}

/// A key of another application can be read often, so the log mentions the first one only.
fn warn_once_about_foreign_key(key: &str) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        warn!(
            key,
            "the key is not a session (another type, or no `device_id`): the session of its user is stored in the \
             database only; `parlor doctor` lists such keys, and `keys.session = off` stores all sessions there"
        );
    });
}
