//! Opens a database: connects, applies missing migrations, reads the database id.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, PgPool, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use super::error::{DatabaseErrorKind, DatabaseOpenError, classify_error};
use super::inspect::{connect_once, to_open_error};
use super::options::{DatabaseOptions, DatabaseUrl, Synchronous};
use super::write_health::WriteHealth;
use super::{Database, DatabaseInner, PerBackend, SqlitePools, copy, for_backend, migrations};
use crate::outbox::Acknowledgements;

/// PostgreSQL connections of the message writer, in addition to [`DatabaseOptions::max_connections`].
pub(crate) const MESSAGE_WRITER_CONNECTIONS: u32 = 4;

const INSERT_DATABASE_ID: &str = "
    INSERT INTO parlor (name, value) VALUES ('database', $1) ON CONFLICT (name) DO NOTHING";
pub(super) const SELECT_DATABASE_ID: &str = "SELECT value FROM parlor WHERE name = 'database'";

/// `application_name` of the PostgreSQL connections of a server.
pub(super) const SERVER_APPLICATION: &str = "parlor";

impl Database {
    /// Opens a database and applies missing migrations.
    pub async fn open(options: DatabaseOptions) -> Result<Self, DatabaseOpenError> {
        let url = options.url.to_string();
        // Held while the pools open as well: SQLite does not wait for a process that changes the journal mode.
        let lock = lock_for_migration(&options.url).await?;
        let database = Self::open_pools(options, SERVER_APPLICATION).await?;
        drop(lock);
        let has_mark = database.has_import_mark().await;
        match has_mark.map_err(|error| to_open_error(&url, error))? {
            true => Err(DatabaseOpenError::ImportIncomplete { url }),
            false => Ok(database),
        }
    }

    /// Opens the connection pools, applies missing migrations and reads the id. On SQLite, the caller holds the
    /// migration lock.
    pub(super) async fn open_pools(
        options: DatabaseOptions,
        application: &str,
    ) -> Result<Self, DatabaseOpenError> {
        let url = options.url.to_string();
        let (pools, id) = match &options.url {
            DatabaseUrl::Sqlite(path) => {
                let pools = open_sqlite(path.clone(), &options).await?;
                migrate(&migrations::sqlite(), &pools.write_pool, &url).await?;
                let id = load_or_create_id(PerBackend::Sqlite(&pools.write_pool)).await;
                (PerBackend::Sqlite(pools), id)
            }
            DatabaseUrl::Postgres(address) => {
                let pool = open_postgres(address, &options, application).await?;
                migrate(&migrations::postgres(), &pool, &url).await?;
                let id = load_or_create_id(PerBackend::Postgres(&pool)).await;
                (PerBackend::Postgres(pool), id)
            }
        };
        let id = id.map_err(|error| to_open_error(&url, error))?;
        if copy::is_incomplete_copy_id(&id) {
            return Err(DatabaseOpenError::CopyIncomplete { url });
        }
        Ok(Self {
            inner: Arc::new(DatabaseInner {
                id,
                pools,
                options,
                write_health: WriteHealth::default(),
                acknowledgements: Acknowledgements::default(),
            }),
        })
    }
}

fn create_folder_of(file: &Path) -> Result<(), DatabaseOpenError> {
    let Some(folder) = file.parent().filter(|it| !it.as_os_str().is_empty()) else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|source| DatabaseOpenError::CreateFolder {
        folder: folder.to_owned(),
        source,
    })
}

async fn open_sqlite(
    path: PathBuf,
    options: &DatabaseOptions,
) -> Result<SqlitePools, DatabaseOpenError> {
    let synchronous = match options.synchronous {
        Synchronous::Full => SqliteSynchronous::Full,
        Synchronous::Normal => SqliteSynchronous::Normal,
    };
    let connect = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .busy_timeout(options.timeout)
        // A deleted conversation leaves messages and mentions, which are removed later.
        .foreign_keys(false);
    let pool = SqlitePoolOptions::new().acquire_timeout(options.timeout);
    let writer = pool
        .clone()
        .max_connections(1)
        .after_release(|connection, _| Box::pin(is_outside_of_transaction(connection)));
    let unopened = |error| to_open_error(&options.url.to_string(), error);
    Ok(SqlitePools {
        // The write pool is opened first because it creates the file.
        write_pool: writer
            .connect_with(connect.clone())
            .await
            .map_err(unopened)?,
        read_pool: pool
            .max_connections(options.max_connections)
            .connect_with(connect.create_if_missing(false).pragma("query_only", "1"))
            .await
            .map_err(unopened)?,
        path,
        write_lock: Arc::new(Mutex::new(())),
        lock_timeout: options.timeout,
    })
}

/// Whether a released connection may be used again. If the disk is full or a sync fails, SQLite ends the transaction by
/// itself. The rollback of the driver then fails, and the driver counts a transaction that does not exist, so every further
/// transaction on this connection would fail.
async fn is_outside_of_transaction(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // The rollback of a dropped transaction is queued. The ping is queued behind it.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// Locks a file until it is dropped, so that only one process opens and migrates a SQLite database. PostgreSQL has its own
/// migration lock.
pub(super) async fn lock_for_migration(
    url: &DatabaseUrl,
) -> Result<Option<File>, DatabaseOpenError> {
    let DatabaseUrl::Sqlite(path) = url else {
        return Ok(None);
    };
    create_folder_of(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let locked = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || {
            let file = File::create(path)?;
            file.lock()?;
            Ok(file)
        })
    };
    let locked = locked.await.unwrap_or_else(|error| Err(error.into()));
    let locked = locked.map_err(|source| DatabaseOpenError::LockFile { path, source })?;
    Ok(Some(locked))
}

async fn open_postgres(
    address: &PgConnectOptions,
    options: &DatabaseOptions,
    application: &str,
) -> Result<PgPool, DatabaseOpenError> {
    let timeout_ms = options.timeout.as_millis().to_string();
    let address = address
        .clone()
        .application_name(application)
        // PostgreSQL ends the transaction of a node that has lost its connection, so that its locks are released.
        .options(
            ["statement_timeout", "idle_in_transaction_session_timeout"]
                .map(|name| (name, &timeout_ms)),
        );
    let unopened = |error| to_open_error(&options.url.to_string(), error);
    let first = connect_once(&address, options.timeout).await;
    first.map_err(unopened)?.close().await.map_err(unopened)?;
    PgPoolOptions::new()
        .max_connections(options.max_connections + MESSAGE_WRITER_CONNECTIONS)
        .acquire_timeout(options.timeout)
        .connect_with(address)
        .await
        .map_err(unopened)
}

pub(super) async fn migrate<'a, A>(
    migrator: &Migrator,
    to: A,
    url: &str,
) -> Result<(), DatabaseOpenError>
where
    A: sqlx::Acquire<'a>,
    <A::Connection as std::ops::Deref>::Target: sqlx::migrate::Migrate,
{
    migrator.run(to).await.map_err(|error| match error {
        MigrateError::VersionMissing(found) => DatabaseOpenError::MigratedByNewerVersion {
            url: url.to_owned(),
            found,
        },
        MigrateError::Execute(error)
            if classify_error(&error) == DatabaseErrorKind::Unavailable =>
        {
            to_open_error(url, error)
        }
        source => DatabaseOpenError::Migration {
            url: url.to_owned(),
            source,
        },
    })
}

/// Reads the id of the database. A new database gets a random id.
async fn load_or_create_id(pool: PerBackend<&SqlitePool, &PgPool>) -> Result<String, sqlx::Error> {
    let new = format!("{:032x}", rand::random::<u128>());
    for_backend!(pool, pool => {
        sqlx::query(INSERT_DATABASE_ID).bind(new).execute(pool).await?;
        sqlx::query_scalar(SELECT_DATABASE_ID).fetch_one(pool).await
    })
}
