//! The worker of a node: applies entries that are due, and deletes acknowledged ones.
//!
//! Invariants:
//! 1. While the store does not answer, no entry is claimed. If an entry fails because the store or the database is
//!    unavailable or full, the pass ends, and its remaining entries are due again at once.
//! 2. An entry that fails for its own reason is repeated after a delay that grows with its age, and delays only the later
//!    entries of its subject.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::acknowledgements::Acknowledgement;
use super::rows::{self, ClaimedEntry};
use super::{OutboxHandler, OutboxPayload};
use crate::api::error::{Error, Result};
use crate::background::{BackgroundTask, BackgroundTasks, log_failure};
use crate::clock::Timestamp;
use crate::context::ChatContext;
use crate::database::{Database, to_db_integer};

/// Interval at which the worker looks for entries that are due. It is doubled up to the maximum while the store or the
/// database is unavailable.
const MIN_INTERVAL: Duration = Duration::from_millis(250);
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a claim ends if the node does not finish.
const CLAIM_DURATION: Duration = Duration::from_secs(5);
/// Shortest and longest delay before an entry that failed for its own reason is repeated: half of its age.
const MIN_REPEAT_DELAY: Duration = Duration::from_secs(1);
const MAX_REPEAT_DELAY: Duration = Duration::from_secs(60);
/// Maximum number of subjects whose entries are applied at the same time.
const MAX_CONCURRENT_SUBJECTS: usize = 16;

type ErasedHandler = Box<dyn Fn(String) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// Applies the entries that their nodes have not applied.
pub struct OutboxWorker {
    ctx: ChatContext,
    database: Database,
    handlers: HashMap<&'static str, ErasedHandler>,
}

/// Results of one page.
#[derive(Default)]
struct PageResults {
    applied: Vec<Acknowledgement>,
    /// Id and claim of each entry that failed or was not tried, and the time at which it is due again.
    postponed: Vec<(i64, i64, i64)>,
    /// Error that ends the pass.
    unavailable: Option<Error>,
}

impl OutboxWorker {
    /// Creates a worker that knows no kind.
    pub(crate) fn new(ctx: ChatContext, database: Database) -> Self {
        Self {
            ctx,
            database,
            handlers: HashMap::new(),
        }
    }

    /// Registers the handler of a kind.
    pub(crate) fn register<P: OutboxPayload>(&mut self, handler: &Arc<impl OutboxHandler<P>>) {
        let handler = Arc::clone(handler);
        let erased: ErasedHandler = Box::new(move |payload| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let payload = serde_json::from_str(&payload)
                    .map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
                handler.apply(payload).await
            })
        });
        let before = self.handlers.insert(P::KIND, erased);
        debug_assert!(before.is_none(), "a kind has one handler: {}", P::KIND);
    }

    /// Starts the worker.
    pub(crate) fn start_background_tasks(self: &Arc<Self>) -> BackgroundTasks {
        let worker = Arc::clone(self);
        BackgroundTasks::new(vec![BackgroundTask::spawn(async move {
            let mut interval = MIN_INTERVAL;
            loop {
                sleep(interval).await;
                let applied = worker.apply_due().await;
                log_failure("apply the outbox", &applied);
                interval = match applied {
                    Ok(_) => MIN_INTERVAL,
                    Err(_) => (interval * 2).min(MAX_INTERVAL),
                };
            }
        })])
    }

    /// Deletes acknowledged entries and applies those that are due. Returns the number of applied entries.
    pub async fn apply_due(&self) -> Result<usize> {
        self.delete_acknowledged().await?;
        let now = self.ctx.now();
        match rows::has_due(&self.database, now).await? {
            true => self.apply_all(now.as_millis()).await,
            false => Ok(0),
        }
    }

    /// Deletes acknowledged entries and applies all others once, including those that are not due.
    pub async fn drain(&self) -> Result<usize> {
        self.delete_acknowledged().await?;
        match rows::has_due(&self.database, Timestamp(u64::MAX)).await? {
            true => self.apply_all(u64::MAX).await,
            false => Ok(0),
        }
    }

    async fn delete_acknowledged(&self) -> Result<()> {
        let acknowledged = self.database.acknowledgements().take_all();
        if acknowledged.is_empty() {
            return Ok(());
        }
        let deleted = rows::delete(&self.database, &acknowledged).await;
        if deleted.is_err() {
            self.database.acknowledgements().extend(acknowledged);
        }
        deleted
    }

    /// Applies the entries that were due at this time, each at most once.
    async fn apply_all(&self, due: u64) -> Result<usize> {
        // Without the store, claims would only delay the entries.
        let ping = redis::cmd("PING");
        ping.exec_async(&mut self.ctx.store().clone()).await?;
        let (mut applied, mut after) = (0, 0);
        loop {
            let until = self.ctx.now().saturating_add(CLAIM_DURATION);
            let page = rows::claim(&self.database, after, due, until).await?;
            let Some(last) = page.last() else {
                return Ok(applied);
            };
            after = last.id;
            applied += self.apply_page(page).await?;
        }
    }

    async fn apply_page(&self, page: Vec<ClaimedEntry>) -> Result<usize> {
        let results = Mutex::new(PageResults::default());
        stream::iter(group_by_subject(page))
            .for_each_concurrent(MAX_CONCURRENT_SUBJECTS, |entries| {
                self.apply_subject(entries, &results)
            })
            .await;
        let results = results.into_inner();
        if !results.applied.is_empty() {
            rows::delete(&self.database, &results.applied).await?;
        }
        if !results.postponed.is_empty() {
            rows::postpone(&self.database, &results.postponed).await?;
        }
        match results.unavailable {
            Some(error) => Err(error),
            None => Ok(results.applied.len()),
        }
    }

    /// Applies the entries of one subject, until one fails.
    async fn apply_subject(&self, entries: Vec<ClaimedEntry>, results: &Mutex<PageResults>) {
        let mut due_again = None;
        for entry in entries {
            let (id, claims) = (entry.id, entry.claims);
            let now = self.ctx.now();
            if results.lock().unavailable.is_some() {
                due_again.get_or_insert(now);
            }
            if let Some(due_at) = due_again {
                let due_at = to_db_integer(due_at.as_millis());
                results.lock().postponed.push((id, claims, due_at));
                continue;
            }
            let created_at = entry.created_at;
            let applied = self.apply_entry(entry).await;
            let mut results = results.lock();
            match applied {
                Ok(()) => results.applied.push((id, claims)),
                Err(error) => {
                    let due_at = match error.is_unavailable() {
                        true => {
                            results.unavailable = Some(error);
                            now
                        }
                        false => now.saturating_add(repeat_delay(now, created_at)),
                    };
                    due_again = Some(due_at);
                    let due_at = to_db_integer(due_at.as_millis());
                    results.postponed.push((id, claims, due_at));
                }
            }
        }
    }

    async fn apply_entry(&self, entry: ClaimedEntry) -> Result<()> {
        let ClaimedEntry {
            kind,
            subject,
            payload,
            ..
        } = entry;
        let Some(handler) = self.handlers.get(kind.as_str()) else {
            // A newer version has inserted the entry, and applies it.
            return Err(Error::UnknownOutboxKind(kind));
        };
        let applied = handler(payload).await;
        if let Err(error) = &applied
            && !error.is_unavailable()
        {
            tracing::error!(
                ?error,
                kind,
                subject,
                "cannot apply an outbox entry; it is repeated later"
            );
        }
        applied
    }
}

fn repeat_delay(now: Timestamp, created_at: u64) -> Duration {
    let age = Duration::from_millis(now.as_millis().saturating_sub(created_at));
    (age / 2).clamp(MIN_REPEAT_DELAY, MAX_REPEAT_DELAY)
}

/// Groups the entries by subject, in their order.
fn group_by_subject(page: Vec<ClaimedEntry>) -> Vec<Vec<ClaimedEntry>> {
    let mut groups: Vec<Vec<ClaimedEntry>> = Vec::new();
    let mut group_of_subject: HashMap<String, usize> = HashMap::new();
    for entry in page {
        let group = match group_of_subject.get(&entry.subject) {
            Some(group) => *group,
            None => {
                group_of_subject.insert(entry.subject.clone(), groups.len());
                groups.push(Vec::new());
                groups.len() - 1
            }
        };
        groups[group].push(entry);
    }
    groups
}

impl std::fmt::Debug for OutboxWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OutboxWorker")
    }
}
