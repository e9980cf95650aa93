//! Opening both sides of a copy, and refusing what would do harm.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqlitePoolOptions};
use sqlx::{PgPool, SqlitePool};

use super::super::examine::{connect, examine, unopened};
use super::super::open::migrate;
use super::super::{
    DatabaseUrl, Either, Examined, Fault, OpenError, Options, fault, migrations, on,
};
use super::rows::{self, Pool};
use super::{CopyError, Copying, Intent, TABLES, Target, unfinished};

/// How long to wait for a lock of SQLite: whoever holds it is a server and keeps it.
const BUSY: Duration = Duration::from_millis(300);

const MARK: &str = "INSERT INTO parlor (name, value) VALUES ('database', $1)";
const SERVERS: &str = "
    SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'parlor'";
const LOOK: &str = "SELECT COUNT(*) FROM parlor";

pub(super) async fn open(
    from: &Options,
    to: &Options,
    intent: Intent,
    used: bool,
) -> Result<Copying, CopyError> {
    let (source_url, target_url) = (from.url.to_string(), to.url.to_string());
    if source_url == target_url {
        return Err(CopyError::Same(source_url));
    }
    let id = original(from).await?;
    let mark = unfinished(&id);
    let seen = examine(to).await?;
    let state = match seen.as_ref().and_then(|seen| seen.id.as_deref()) {
        None => Target::Empty,
        Some(found) if found == mark => Target::Begun,
        Some(found) if found == id => Target::Complete,
        Some(found) => {
            let found = found.to_owned();
            return Err(CopyError::Other {
                url: target_url,
                found,
            });
        }
    };
    match (intent, state) {
        (Intent::CopyAnew, Target::Complete) => {
            return Err(CopyError::Complete(target_url));
        }
        (Intent::Compare, Target::Empty) => return Err(CopyError::None(target_url)),
        (Intent::Look, _) | (_, Target::Empty) => {}
        (_, Target::Begun | Target::Complete) => known(seen.as_ref(), &target_url)?,
    }
    let source = source(from, &source_url, used).await?;
    let target = match (intent, state) {
        (Intent::Look, Target::Empty) => None,
        _ => Some(target(to, &target_url, state, &mark).await?),
    };
    if let (Intent::CopyAnew, Some(target)) = (intent, &target) {
        let cleared = rows::clear(target, TABLES.iter().rev()).await;
        cleared.map_err(|error| unopened(&target_url, error))?;
    }
    Ok(Copying {
        id,
        state,
        source,
        source_url,
        target,
        target_url,
    })
}

/// The id of what is to be copied.
async fn original(from: &Options) -> Result<String, CopyError> {
    let url = from.url.to_string();
    let seen = examine(from).await?;
    let Some(id) = seen.as_ref().and_then(|seen| seen.id.clone()) else {
        return Err(CopyError::Nothing(url));
    };
    if super::is_unfinished(&id) {
        return Err(CopyError::Half(url));
    }
    known(seen.as_ref(), &url)?;
    Ok(id)
}

/// Whether the tables are those of this program.
fn known(seen: Option<&Examined>, url: &str) -> Result<(), CopyError> {
    let found = seen.and_then(|seen| seen.migration).unwrap_or_default();
    let known = Examined::LATEST;
    if found == known {
        return Ok(());
    }
    let url = url.to_owned();
    Err(CopyError::Version { url, found, known })
}

async fn source(from: &Options, url: &str, used: bool) -> Result<Pool, CopyError> {
    match &from.url {
        DatabaseUrl::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let options = options.pragma("query_only", "1").busy_timeout(BUSY);
            let options = match used {
                true => options,
                // Nobody else has the file open, and nobody opens it meanwhile.
                false => options.locking_mode(SqliteLockingMode::Exclusive),
            };
            let pool = sqlite(options).await.map_err(|error| in_use(url, error))?;
            let looked = sqlx::query(LOOK).fetch_one(&pool).await;
            looked.map_err(|error| in_use(url, error))?;
            Ok(Either::Sqlite(pool))
        }
        DatabaseUrl::Postgres(address) => {
            let address = address.as_ref().clone();
            let address = address.options([("default_transaction_read_only", "on")]);
            let pool = postgres(address, from.timeout).await;
            let pool = pool.map_err(|error| unopened(url, error))?;
            let servers = sqlx::query_scalar(SERVERS).fetch_one(&pool).await;
            let servers: i64 = servers.map_err(|error| unopened(url, error))?;
            if servers > 0 && !used {
                return Err(CopyError::Used(url.to_owned()));
            }
            Ok(Either::Postgres(pool))
        }
    }
}

fn in_use(url: &str, error: sqlx::Error) -> CopyError {
    match fault(&error) {
        Fault::Conflict => CopyError::Used(url.to_owned()),
        _ => unopened(url, error).into(),
    }
}

/// The target, with its tables and its mark.
async fn target(to: &Options, url: &str, state: Target, mark: &str) -> Result<Pool, OpenError> {
    let unopened = |error| unopened(url, error);
    let pool = match &to.url {
        DatabaseUrl::Sqlite(path) => {
            let options = SqliteConnectOptions::new().filename(path);
            let options = options.create_if_missing(true).foreign_keys(true);
            let options = options
                .journal_mode(SqliteJournalMode::Wal)
                .busy_timeout(BUSY);
            Either::Sqlite(sqlite(options).await.map_err(unopened)?)
        }
        DatabaseUrl::Postgres(address) => {
            let pool = postgres(address.as_ref().clone(), to.timeout).await;
            Either::Postgres(pool.map_err(unopened)?)
        }
    };
    if state == Target::Empty {
        match &pool {
            Either::Sqlite(pool) => migrate(&migrations::sqlite(), pool, url).await?,
            Either::Postgres(pool) => migrate(&migrations::postgres(), pool, url).await?,
        }
        let marked = on!(&pool, pool => sqlx::query(MARK).bind(mark).execute(pool).await.map(drop));
        marked.map_err(unopened)?;
    }
    Ok(pool)
}

/// One connection: what it locks stays locked, and pages come in order.
async fn sqlite(options: SqliteConnectOptions) -> Result<SqlitePool, sqlx::Error> {
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.idle_timeout(None).max_lifetime(None);
    pool.connect_with(options).await
}

/// One connection, for statements that take as long as they take.
async fn postgres(address: PgConnectOptions, patience: Duration) -> Result<PgPool, sqlx::Error> {
    let address = address.application_name("parlor-migrate");
    // A pool alone would try again in silence until its time is over.
    drop(connect(&address, patience).await?);
    let pool = PgPoolOptions::new().max_connections(1);
    pool.acquire_timeout(patience).connect_with(address).await
}
