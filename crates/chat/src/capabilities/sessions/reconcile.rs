//! Compares the rows of a user with the session hash, and decides what to change so that both agree.
//!
//! ```text
//! hash      row                   decision
//! missing   blocked               write the hash: a DEL or an expiry does not lift a block
//! missing   session               known hash: the session was ended by DEL or expiry. Otherwise the store lost it: write it
//! blocked   not blocked           known block: it was lifted in Parlor, write the hash. Otherwise adopt the block
//! allowed   blocked               adopted block, lifted by the service: lift it. Otherwise write the block
//! session   the same session      known hash: the row decides. Otherwise another service changed it: adopt the change
//! session   another session       known hash: the row decides. Otherwise adopt the session
//! session   none                  begun before the last logout: known hash, delete it. Otherwise adopt the session
//! ```
//!
//! A hash is known if its fingerprint is the one that was recorded when it was last compared with the rows. The session
//! of another service is adopted if the caller has a valid token, and if it began after the last logout in Parlor.
//!
//! Invariants:
//! 1. A field that another service has written is overwritten only after the row contains its information.
//! 2. Only a hash that was compared in this store epoch lifts a block, because an older store may contain an old hash.

use super::model::{SessionStatus, UserSession};
use super::rows::UserSessionRow;
use super::session_hash::{HashField, SessionHash, SyncRecord};
use crate::clock::Timestamp;
use crate::ids::{DeviceId, UserId};

/// Everything that the decision depends on.
pub(super) struct SessionComparison<'a> {
    pub(super) user: &'a UserId,
    /// `None` if the hash is missing.
    pub(super) hash: Option<&'a SessionHash>,
    pub(super) record: Option<&'a SyncRecord>,
    /// Current store epoch.
    pub(super) epoch: u64,
    pub(super) row: &'a UserSessionRow,
    /// True if the caller has a token that is not revoked. Only such a caller adopts a session.
    pub(super) has_valid_token: bool,
    pub(super) now: Timestamp,
    /// A session that was last used before this time has expired.
    pub(super) expiry_cutoff: Timestamp,
    /// The change of the rows that the hash has to follow; `None` if the session is only read.
    pub(super) row_change: Option<RowChange>,
}

/// A change of the rows by Parlor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowChange {
    /// The user was logged out: every session in the hash has ended.
    Logout,
    /// A block that began at this time was lifted.
    Unblock(Option<Timestamp>),
    /// Any other change. Sessions that began up to the last logout have ended.
    Other,
}

/// What has to be changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reconciliation {
    /// Rows and hash agree; the fingerprint is recorded.
    Record,
    /// These fields of the hash are written; it then agrees with the rows.
    WriteHash(Vec<HashField>),
    /// These fields of the hash are written to lift a block. The session in the hash is compared with the rows next.
    UnblockHash(Vec<HashField>),
    /// The hash is deleted.
    DeleteHash,
    /// The block in the hash becomes a row.
    AdoptBlock,
    /// The block in the row is removed.
    LiftBlock,
    /// The session in the hash becomes the row.
    AdoptSession(UserSession),
    /// The session row that began at this time is deleted.
    DeleteRow(Timestamp),
    /// Nothing is changed. Contains the session of the hash if a caller with a valid token would adopt it.
    Leave(Option<UserSession>),
}

impl SessionComparison<'_> {
    pub(super) fn decide(&self) -> Reconciliation {
        match self.hash {
            None => self.without_hash(),
            Some(hash) if hash.is_blocked() || self.row.is_blocked() => self.with_block(hash),
            Some(hash) => self.with_session(hash),
        }
    }

    fn is_compared_in_this_epoch(&self) -> bool {
        self.record.is_some_and(|record| record.epoch == self.epoch)
    }

    fn is_known(&self, hash: &SessionHash) -> bool {
        self.record
            .is_some_and(|record| record.fingerprint == hash.fingerprint())
    }

    fn without_hash(&self) -> Reconciliation {
        let Some(session) = self.row.to_session(self.user, self.expiry_cutoff) else {
            return Reconciliation::Record;
        };
        let recorded = self.record.map(|record| &record.fingerprint);
        let recorded = recorded.filter(|_| self.is_compared_in_this_epoch());
        match recorded {
            Some(recorded) if !self.row.is_blocked() && self.row_change.is_none() => {
                let begun_at = session.login_time;
                let was_in_hash = recorded.login_time() == begun_at.as_millis().to_string();
                // A session that begins now has a row before it has a hash.
                let begins_now = begun_at.saturating_add(super::RENEW_INTERVAL) > self.now;
                match was_in_hash || !begins_now {
                    true => Reconciliation::DeleteRow(begun_at),
                    false => Reconciliation::Leave(None),
                }
            }
            _ => Reconciliation::WriteHash(session.to_hash_fields().into()),
        }
    }

    fn with_block(&self, hash: &SessionHash) -> Reconciliation {
        let was_known = self
            .record
            .is_some_and(|record| record.fingerprint.is_blocked());
        if !self.row.is_blocked() {
            if !was_known {
                return Reconciliation::AdoptBlock;
            }
            let session = self.row.session(self.user);
            if session.is_none() && self.is_written_for_block(hash) {
                return Reconciliation::DeleteHash;
            }
            let status = session.map_or(SessionStatus::Login, |session| session.status);
            let status = ("status", status.name().to_owned());
            return Reconciliation::UnblockHash(vec![status, ("active", "true".to_owned())]);
        }
        if self.is_lifted_by_service(hash) {
            return Reconciliation::LiftBlock;
        }
        let is_adopted = self.row.is_block_adopted() && hash.is_blocked();
        if is_adopted || hash.is_blocked_for_every_reader() {
            return Reconciliation::Record;
        }
        let status = ("status", SessionStatus::Blocked.name().to_owned());
        Reconciliation::WriteHash(vec![status, ("active", "false".to_owned())])
    }

    /// True if Parlor has created the hash to show the lifted block, because the user had no session.
    fn is_written_for_block(&self, hash: &SessionHash) -> bool {
        let blocked_at = match self.row_change {
            Some(RowChange::Unblock(blocked_at)) => blocked_at,
            _ => None,
        };
        blocked_at.is_some()
            && blocked_at == hash.login_time()
            && hash.device_id == DeviceId::default_for_requests().as_str()
    }

    /// True if the service that made the block has set `active` to `true`, or the status to another one, and has left
    /// `login_time` unchanged. A new login does not lift a block.
    fn is_lifted_by_service(&self, hash: &SessionHash) -> bool {
        let Some(record) = self.record.filter(|_| self.is_compared_in_this_epoch()) else {
            return false;
        };
        let recorded = &record.fingerprint;
        let is_active_again = recorded.active() == "false" && hash.active == "true";
        self.row.is_block_adopted()
            && recorded.is_blocked()
            && recorded.login_time() == hash.login_time
            && (is_active_again || !hash.is_blocked())
    }

    fn with_session(&self, hash: &SessionHash) -> Reconciliation {
        let is_known = self.is_known(hash);
        let row = self.row.session(self.user);
        let is_same = |row: &UserSession| {
            let begun_at = hash.login_time();
            begun_at.is_none_or(|begun_at| begun_at == row.login_time)
        };
        match row {
            Some(row) if is_same(&row) => self.with_same_session(hash, &row),
            Some(row) if is_known => {
                Reconciliation::WriteHash(hash.fields_to_match(&row, self.now))
            }
            None if self.has_ended(hash) => Reconciliation::DeleteHash,
            _ => self.with_foreign_session(hash),
        }
    }

    /// True if the session in the hash was ended by a logout in Parlor that the hash has missed.
    fn has_ended(&self, hash: &SessionHash) -> bool {
        let last_logout = self.row.revoked_before();
        let begun_at = hash.login_time().unwrap_or(Timestamp(0));
        let is_before_logout = last_logout > Timestamp(0) && begun_at <= last_logout;
        match self.row_change {
            // The clock of another service may be ahead.
            Some(RowChange::Logout) => true,
            Some(RowChange::Unblock(_) | RowChange::Other) => is_before_logout,
            None => is_before_logout && self.is_known(hash),
        }
    }

    fn with_same_session(&self, hash: &SessionHash, row: &UserSession) -> Reconciliation {
        let last_seen = row.last_seen.max(hash.last_seen(self.now));
        if last_seen < self.expiry_cutoff {
            return Reconciliation::Leave(None);
        }
        let fields = match self.is_known(hash) {
            true => hash.fields_to_match(row, self.now),
            false if hash.differs_from(row, self.now) => {
                return Reconciliation::AdoptSession(UserSession {
                    login_time: row.login_time,
                    last_seen,
                    ..hash.to_session(self.user, self.now)
                });
            }
            false => hash.missing_fields(row),
        };
        match fields.is_empty() {
            true => Reconciliation::Record,
            false => Reconciliation::WriteHash(fields),
        }
    }

    /// A session that began in another service.
    fn with_foreign_session(&self, hash: &SessionHash) -> Reconciliation {
        let revoked_before = self.row.revoked_before();
        let begun_at = hash.login_time().unwrap_or(Timestamp(0));
        let is_after_logout = revoked_before == Timestamp(0) || begun_at > revoked_before;
        if !is_after_logout || hash.last_seen(self.now) < self.expiry_cutoff {
            return Reconciliation::Leave(None);
        }
        let session = hash.to_session(self.user, self.now);
        match self.has_valid_token {
            true => Reconciliation::AdoptSession(session),
            false => Reconciliation::Leave(Some(session)),
        }
    }
}
