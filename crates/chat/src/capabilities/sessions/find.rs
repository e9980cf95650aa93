//! Finds the session of a user in the hash and in the rows, and makes both agree.

use super::Sessions;
use super::adopted_rows;
use super::model::{SessionStatus, UserSession};
use super::reconcile::{Reconciliation, RowChange, SessionComparison};
use super::rows::{self, UserSessionRow};
use super::session_hash::SessionKeyContent;
use super::session_key::{SessionVerdict, SessionWrite, StoredSession};
use crate::api::error::{Error, Result};
use crate::clock::Timestamp;
use crate::ids::UserId;

/// Maximum number of attempts while other writers change the same session.
const MAX_ATTEMPTS: usize = 10;

impl Sessions {
    /// Finds the session of a user. With `issued`, only tokens that are not revoked find it; such a token also adopts the
    /// session of another service.
    pub(super) async fn find_session(
        &self,
        user: &UserId,
        issued: Option<Timestamp>,
        renew: Option<Timestamp>,
    ) -> Result<UserSession> {
        for _ in 0..MAX_ATTEMPTS {
            let stored = self.read_session_key(user, issued, renew).await?;
            match (stored.verdict, &stored.content) {
                (_, SessionKeyContent::Foreign) => break,
                (SessionVerdict::TokenRevoked, _) => return Err(Error::TokenRevoked),
                (SessionVerdict::Verified, SessionKeyContent::Missing) => {
                    return Err(Error::SessionExpired);
                }
                (SessionVerdict::Verified, SessionKeyContent::Session(hash)) => {
                    return match hash.has_expired(self.expiry_cutoff()) && !hash.is_blocked() {
                        true => Err(Error::SessionExpired),
                        false => Ok(hash.to_session(user, self.ctx.now())),
                    };
                }
                (SessionVerdict::Unverified, _) => {}
            }
            let row = self.load_row(user).await?;
            let is_revoked = issued.is_some_and(|issued| row.revokes(issued));
            let has_valid_token = issued.is_some() && !is_revoked;
            let comparison = self.compare(user, &stored, &row, has_valid_token);
            match comparison.decide() {
                Reconciliation::Leave(_) if is_revoked => return Err(Error::TokenRevoked),
                Reconciliation::Leave(session) => return session.ok_or(Error::SessionExpired),
                decision => self.reconcile(user, &stored, &row, decision).await?,
            }
            // Read again, because another writer may have been faster.
        }
        // The key is not a session, or it changes faster than it can be read: the rows decide.
        self.find_session_in_rows(user, issued).await
    }

    /// Finds the session of a user in the rows. With `issued`, only tokens that are not revoked find it.
    pub(super) async fn find_session_in_rows(
        &self,
        user: &UserId,
        issued: Option<Timestamp>,
    ) -> Result<UserSession> {
        let row = self.load_row(user).await?;
        let is_revoked = issued.is_some_and(|issued| row.revokes(issued));
        match row.to_session(user, self.expiry_cutoff()) {
            Some(session) if session.status == SessionStatus::Blocked || !is_revoked => Ok(session),
            _ if is_revoked => Err(Error::TokenRevoked),
            _ => Err(Error::SessionExpired),
        }
    }

    /// Makes the hash agree with the rows after this change, and removes the user from the cache. Returns the session of
    /// the rows.
    pub(super) async fn sync_from_rows(
        &self,
        user: &UserId,
        change: RowChange,
    ) -> Result<Option<UserSession>> {
        let synced = self.write_hash_from_rows(user, change).await;
        self.invalidate_cache(user);
        synced
    }

    async fn write_hash_from_rows(
        &self,
        user: &UserId,
        change: RowChange,
    ) -> Result<Option<UserSession>> {
        let mut row = self.load_row(user).await?;
        for _ in 0..MAX_ATTEMPTS {
            let stored = self.read_session_key(user, None, None).await?;
            if matches!(stored.content, SessionKeyContent::Foreign) {
                break;
            }
            let comparison = SessionComparison {
                row_change: Some(change),
                ..self.compare(user, &stored, &row, false)
            };
            let decision = comparison.decide();
            let is_done = matches!(decision, Reconciliation::Record | Reconciliation::Leave(_));
            self.reconcile(user, &stored, &row, decision).await?;
            // Another writer may have changed the rows after they were read here, and this write may have overwritten
            // its hash. Every writer reads the rows again after its write, so the last one writes the current rows.
            let now = self.load_row(user).await?;
            if is_done && now == row {
                break;
            }
            row = now;
        }
        Ok(row.to_session(user, self.expiry_cutoff()))
    }

    fn compare<'a>(
        &self,
        user: &'a UserId,
        stored: &'a StoredSession,
        row: &'a UserSessionRow,
        has_valid_token: bool,
    ) -> SessionComparison<'a> {
        SessionComparison {
            user,
            hash: stored.content.session(),
            record: stored.record.as_ref(),
            epoch: self.ctx.store_epoch(),
            row,
            has_valid_token,
            now: self.ctx.now(),
            expiry_cutoff: self.expiry_cutoff(),
            row_change: None,
        }
    }

    /// Applies a decision. If the hash or the rows have changed meanwhile, nothing happens.
    async fn reconcile(
        &self,
        user: &UserId,
        stored: &StoredSession,
        row: &UserSessionRow,
        decision: Reconciliation,
    ) -> Result<()> {
        let write = match decision {
            Reconciliation::Record => SessionWrite::Update(stored, Vec::new()),
            Reconciliation::WriteHash(fields) => SessionWrite::Update(stored, fields),
            Reconciliation::UnblockHash(fields) => SessionWrite::Unblock(stored, fields),
            Reconciliation::DeleteHash => SessionWrite::Delete(stored),
            Reconciliation::AdoptBlock => {
                return adopted_rows::adopt_block(&self.database, user, self.ctx.now()).await;
            }
            Reconciliation::LiftBlock => {
                return adopted_rows::lift_adopted_block(&self.database, user).await;
            }
            Reconciliation::AdoptSession(session) => {
                return adopted_rows::adopt_session(&self.database, &session, row).await;
            }
            Reconciliation::DeleteRow(begun_at) => {
                return rows::delete_session_begun_at(&self.database, user, begun_at).await;
            }
            Reconciliation::Leave(_) => return Ok(()),
        };
        self.write_session_key(user, row, write).await.map(drop)
    }
}
