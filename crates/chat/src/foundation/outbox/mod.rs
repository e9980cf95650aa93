//! Outbox: committed changes that may not be in the store yet.
//!
//! ```text
//! rows and entry ──COMMIT──▶ entry, due after HOLD_TIME
//!                              │
//!          ┌───────────────────┴────────────────────┐
//!          ▼ the node that committed it             ▼ killed, cancelled, or the store is unavailable
//!     applies the change at once               the entry is due: one node claims it, and runs the
//!          │                                   handler of its kind ──error──▶ due again later
//!          ▼                                        │
//!     acknowledge() ──▶ deleted with the next batch ◀┘
//! ```
//!
//! Invariants:
//! 1. An entry is inserted in the transaction of its change. It exists until the change has been applied to the store,
//!    whatever happens to the process, and there is no limit on the number of entries.
//! 2. An entry can be applied more than once, and after later changes of its subject. Applying it must therefore be
//!    idempotent, and a late application writes the present state of the rows.
//! 3. The worker applies the entries of one subject in the order of their commits, and those of different subjects
//!    concurrently.
//! 4. An acknowledgement that is lost causes a repetition, never a loss.

mod acknowledgements;
mod rows;
mod worker;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::acknowledgements::Acknowledgements;
pub(crate) use self::rows::NewEntry;
pub use self::worker::OutboxWorker;
use crate::api::error::Result;
use crate::clock::Timestamp;
use crate::database::{Database, WriteTransaction};

/// A kind of entry.
pub(crate) trait OutboxPayload: Serialize + DeserializeOwned + Send + 'static {
    /// Name of the kind. A released name keeps its format: entries can be older than the program.
    const KIND: &'static str;

    /// Ordering key: the conversation or user that the change concerns. The transaction that inserts the entry holds a
    /// lock on it.
    fn subject(&self) -> String;
}

/// Applies the entries of a kind that their node has not applied.
pub(crate) trait OutboxHandler<P: OutboxPayload>: Send + Sync + 'static {
    /// Updates the store. An error that concerns this entry alone delays the later entries of its subject.
    fn apply(&self, payload: P) -> impl Future<Output = Result<()>> + Send;
}

/// An entry that this process has inserted and not acknowledged.
#[derive(Debug, Clone, Copy)]
#[must_use = "an entry that is not acknowledged is applied again"]
pub(crate) struct OutboxEntry {
    id: i64,
}

/// Inserts an entry into the transaction of its change.
pub(crate) async fn insert<P: OutboxPayload>(
    tx: &mut WriteTransaction,
    now: Timestamp,
    payload: &P,
) -> Result<OutboxEntry> {
    let id = rows::insert(tx, &NewEntry::of(payload, now)).await?;
    Ok(OutboxEntry::from_id(id))
}

/// Inserts an entry of a change that is committed already, unless there is one. An entry that is being applied is
/// applied once more.
pub(crate) async fn insert_once<P: OutboxPayload>(
    database: &Database,
    now: Timestamp,
    payload: &P,
) -> Result<()> {
    let mut tx = database.begin().await?;
    let entry = NewEntry::of(payload, now);
    if !rows::repeat(&mut tx, &entry).await? {
        rows::insert(&mut tx, &entry).await?;
    }
    Ok(tx.commit().await?)
}

impl OutboxEntry {
    /// The entry with this id, which a statement of the caller has inserted.
    pub(crate) fn from_id(id: i64) -> Self {
        Self { id }
    }

    /// The change is in the store: the entry is deleted with the next batch.
    pub(crate) fn acknowledge(self, database: &Database) {
        database.acknowledgements().push((self.id, 0));
    }
}
