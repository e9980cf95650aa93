//! Code for both backends: one value per backend, statements that run on either, conversions of integers.

/// Compiles an expression or block for each backend:
/// `for_backend!(database.read_pool(), pool => sqlx::query(SQL).bind(id).fetch_one(pool).await)`.
macro_rules! for_backend {
    ($either:expr, $it:pat => $body:expr) => {
        match $either {
            $crate::database::PerBackend::Sqlite($it) => $body,
            $crate::database::PerBackend::Postgres($it) => $body,
        }
    };
}
pub(crate) use for_backend;

/// Runs a reading statement with these bound values:
/// `read_statement!(database, query_as(SQL, id.as_str(), limit).fetch_all)`.
macro_rules! read_statement {
    ($database:expr, $query:ident($sql:expr $(, $value:expr)*).$fetch:ident) => {
        $crate::database::for_backend!($database.reader(), pool => {
            sqlx::$query($sql)$(.bind($value))*.$fetch(pool).await?
        })
    };
}
pub(crate) use read_statement;

/// Runs a statement in a transaction with these bound values, as [`read_statement`].
macro_rules! tx_statement {
    ($tx:expr, $query:ident($sql:expr $(, $value:expr)*).$fetch:ident) => {
        $crate::database::for_backend!($tx.connection(), connection => {
            sqlx::$query($sql)$(.bind($value))*.$fetch(connection).await?
        })
    };
}
pub(crate) use tx_statement;

/// Runs a single writing statement. On PostgreSQL this is one round trip; on SQLite the statement runs in a transaction
/// that holds the write lock:
/// `write_statement!(database, c => sqlx::query(SQL).bind(id).execute(c).await?.rows_affected())`.
macro_rules! write_statement {
    ($database:expr, $it:ident => $body:expr) => {
        match $database.pools() {
            // A single statement is a transaction by itself.
            $crate::database::PerBackend::Postgres($it) => $body,
            $crate::database::PerBackend::Sqlite(_) => {
                let mut tx = $database.begin().await?;
                let $crate::database::PerBackend::Sqlite($it) = tx.connection() else {
                    unreachable!("a transaction has the backend of its database")
                };
                let changed = $body;
                tx.commit().await?;
                changed
            }
        }
    };
}
pub(crate) use write_statement;

/// Converts a number to a database integer, saturating: no `seq` and no timestamp is that large.
pub(crate) fn to_db_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a database integer to a number; negative values, which do not occur, become 0.
pub(crate) fn from_db_integer(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

/// One value for SQLite and another one for PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub enum PerBackend<S, P> {
    /// The value for SQLite.
    Sqlite(S),
    /// The value for PostgreSQL.
    Postgres(P),
}
