//! Rows of the outbox.
//!
//! Invariants:
//! 1. Claims run one after the other: under the write lock of SQLite, or an advisory lock of PostgreSQL. Two nodes apply
//!    the same entry only after a claim has ended, or during a drain; the number of the claim makes the older
//!    acknowledgement ineffective.
//! 2. Except in a drain, an entry is not claimed while an earlier one of its subject is claimed or waits for a repetition.

use std::time::Duration;

use serde::Serialize;
use sqlx::FromRow;

use super::OutboxPayload;
use super::acknowledgements::Acknowledgement;
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{
    Database, PerBackend, WriteTransaction, read_statement, to_db_integer, tx_statement,
    write_statement,
};

/// Time for which an entry belongs to the node that has inserted it.
const HOLD_TIME: Duration = Duration::from_secs(1);
/// Maximum number of entries per claim.
const PAGE_SIZE: i64 = 100;
/// Key of the advisory lock, any constant number.
const CLAIM_LOCK: i64 = 0x7061_726c_6f72_0001;

const INSERT: &str = "
    INSERT INTO outbox (subject, kind, payload, created_at, due_at) VALUES ($1, $2, $3, $4, $5) RETURNING id";
const REPEAT: &str = "
    UPDATE outbox SET claims = claims + 1 WHERE subject = $1 AND kind = $2 AND payload = $3 RETURNING id";
const HAS_DUE: &str = "SELECT id FROM outbox WHERE due_at <= $1 LIMIT 1";
const LOCK_CLAIMS: &str = "SELECT pg_advisory_xact_lock($1)";
const CLAIM: &str = "
    UPDATE outbox SET due_at = $1, claims = claims + 1
    WHERE id IN (
        SELECT entry.id FROM outbox entry
        WHERE entry.id > $2 AND entry.due_at <= $3 AND NOT EXISTS (
            SELECT 1 FROM outbox earlier
            WHERE earlier.subject = entry.subject AND earlier.id < entry.id AND earlier.due_at > $3)
        ORDER BY entry.id LIMIT $4)
    RETURNING id, subject, kind, payload, created_at, claims";
const DELETE_SQLITE: &str = "
    DELETE FROM outbox WHERE (id, claims) IN (SELECT value ->> 0, value ->> 1 FROM json_each($1))";
const DELETE_POSTGRES: &str = "
    DELETE FROM outbox USING unnest($1::bigint[], $2::bigint[]) AS applied (id, claims)
    WHERE outbox.id = applied.id AND outbox.claims = applied.claims";
const POSTPONE_SQLITE: &str = "
    UPDATE outbox SET due_at = later.value ->> 2 FROM json_each($1) AS later
    WHERE outbox.id = later.value ->> 0 AND outbox.claims = later.value ->> 1";
const POSTPONE_POSTGRES: &str = "
    UPDATE outbox SET due_at = later.due_at
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS later (id, claims, due_at)
    WHERE outbox.id = later.id AND outbox.claims = later.claims";

/// Columns of a new entry, for a statement that inserts it together with its change.
pub(crate) struct NewEntry {
    pub(crate) subject: String,
    pub(crate) kind: &'static str,
    pub(crate) payload: String,
    pub(crate) created_at: i64,
    pub(crate) due_at: i64,
}

impl NewEntry {
    pub(crate) fn of<P: OutboxPayload>(payload: &P, now: Timestamp) -> Self {
        Self {
            subject: payload.subject(),
            kind: P::KIND,
            payload: to_json(payload),
            created_at: to_db_integer(now.as_millis()),
            due_at: to_db_integer(now.saturating_add(HOLD_TIME).as_millis()),
        }
    }
}

/// An entry that this node has claimed.
#[derive(Debug, FromRow)]
pub(super) struct ClaimedEntry {
    pub(super) id: i64,
    pub(super) subject: String,
    pub(super) kind: String,
    pub(super) payload: String,
    #[sqlx(try_from = "i64")]
    pub(super) created_at: u64,
    pub(super) claims: i64,
}

/// Inserts an entry, and returns its id.
pub(super) async fn insert(tx: &mut WriteTransaction, entry: &NewEntry) -> Result<i64> {
    Ok(tx_statement!(
        tx,
        query_scalar(
            INSERT,
            &entry.subject,
            entry.kind,
            &entry.payload,
            entry.created_at,
            entry.due_at
        )
        .fetch_one
    ))
}

/// Invalidates the claim of an equal entry, so that it is applied once more. Returns false if there is none.
pub(super) async fn repeat(tx: &mut WriteTransaction, entry: &NewEntry) -> Result<bool> {
    let found: Option<i64> = tx_statement!(
        tx,
        query_scalar(REPEAT, &entry.subject, entry.kind, &entry.payload).fetch_optional
    );
    Ok(found.is_some())
}

/// Whether an entry is due.
pub(super) async fn has_due(database: &Database, now: Timestamp) -> Result<bool> {
    let now = to_db_integer(now.as_millis());
    let found: Option<i64> = read_statement!(database, query_scalar(HAS_DUE, now).fetch_optional);
    Ok(found.is_some())
}

/// Claims the next entries after this id that were due at `due`, until `until`.
pub(super) async fn claim(
    database: &Database,
    after: i64,
    due: u64,
    until: Timestamp,
) -> Result<Vec<ClaimedEntry>> {
    let (due, until) = (to_db_integer(due), to_db_integer(until.as_millis()));
    let mut tx = database.begin().await?;
    if let PerBackend::Postgres(connection) = tx.connection() {
        sqlx::query(LOCK_CLAIMS)
            .bind(CLAIM_LOCK)
            .execute(connection)
            .await?;
    }
    let mut claimed: Vec<ClaimedEntry> =
        tx_statement!(tx, query_as(CLAIM, until, after, due, PAGE_SIZE).fetch_all);
    tx.commit().await?;
    claimed.sort_unstable_by_key(|entry| entry.id);
    Ok(claimed)
}

/// Deletes applied entries.
pub(super) async fn delete(database: &Database, applied: &[Acknowledgement]) -> Result<()> {
    match database.pools() {
        PerBackend::Postgres(pool) => {
            let (ids, claims): (Vec<i64>, Vec<i64>) = applied.iter().copied().unzip();
            let delete = sqlx::query(DELETE_POSTGRES).bind(ids).bind(claims);
            delete.execute(pool).await?;
        }
        PerBackend::Sqlite(_) => execute_on_sqlite(database, DELETE_SQLITE, &applied).await?,
    }
    Ok(())
}

/// Sets the time at which claimed entries are due again: id, claim and time of each.
pub(super) async fn postpone(database: &Database, entries: &[(i64, i64, i64)]) -> Result<()> {
    match database.pools() {
        PerBackend::Postgres(pool) => {
            let column = |part: fn(&(i64, i64, i64)) -> i64| entries.iter().map(part).collect();
            let [ids, claims, due_at]: [Vec<i64>; 3] =
                [column(|it| it.0), column(|it| it.1), column(|it| it.2)];
            let postpone = sqlx::query(POSTPONE_POSTGRES);
            let postpone = postpone.bind(ids).bind(claims).bind(due_at);
            postpone.execute(pool).await?;
        }
        PerBackend::Sqlite(_) => execute_on_sqlite(database, POSTPONE_SQLITE, &entries).await?,
    }
    Ok(())
}

/// Runs a statement whose parameter is a JSON array of rows.
async fn execute_on_sqlite(
    database: &Database,
    statement: &'static str,
    rows: &impl Serialize,
) -> Result<()> {
    let rows = to_json(rows);
    write_statement!(database, connection => {
        sqlx::query(statement).bind(&rows).execute(connection).await?;
    });
    Ok(())
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("identifiers, texts and numbers are JSON")
}
