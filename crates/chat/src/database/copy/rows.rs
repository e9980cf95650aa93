//! Rows of any table, read and written page by page.

use sqlx::{AssertSqlSafe, PgPool, Row as _, SqlitePool};

use super::super::{Either, on};
use super::tables::{Column, Kind, Table};

/// Rows of one statement: the parameters of all of them must stay below what SQLite takes.
const TOGETHER: usize = 50;

pub(super) type Pool = Either<SqlitePool, PgPool>;

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    Number(Option<i64>),
    Text(Option<String>),
}

/// As people read a key.
impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(Some(number)) => write!(f, "{number}"),
            Self::Text(Some(text)) => f.write_str(text),
            Self::Number(None) | Self::Text(None) => f.write_str("NULL"),
        }
    }
}

pub(super) type Row = Vec<Cell>;

/// Puts values in the places of a statement.
macro_rules! bound {
    ($query:expr, $cells:expr) => {{
        let mut query = $query;
        for cell in $cells {
            query = match cell {
                Cell::Number(number) => query.bind(*number),
                Cell::Text(text) => query.bind(text.clone()),
            };
        }
        query
    }};
}

/// Takes the values of these columns out of a row.
macro_rules! taken {
    ($row:expr, $columns:expr) => {
        $columns
            .iter()
            .enumerate()
            .map(|(index, column): (usize, &Column)| {
                Ok(match column.kind {
                    Kind::Number => Cell::Number($row.try_get(index)?),
                    Kind::Text => Cell::Text($row.try_get(index)?),
                })
            })
            .collect::<Result<Row, sqlx::Error>>()
    };
}

pub(super) async fn count(pool: &Pool, table: &Table) -> Result<u64, sqlx::Error> {
    let sql = AssertSqlSafe(table.count());
    let count: i64 = on!(pool, pool => sqlx::query_scalar(sql).fetch_one(pool).await)?;
    Ok(count.unsigned_abs())
}

/// Up to `limit` rows after a key.
pub(super) async fn page(
    pool: &Pool,
    table: &Table,
    after: Option<&[Cell]>,
    limit: u32,
) -> Result<Vec<Row>, sqlx::Error> {
    let sql = AssertSqlSafe(table.page(after.is_some()));
    on!(pool, pool => {
        let query = bound!(sqlx::query(sql), after.into_iter().flatten());
        let rows = query.bind(i64::from(limit)).fetch_all(pool).await?;
        rows.iter().map(|row| taken!(row, table.columns)).collect()
    })
}

/// The highest key, if there is a row.
pub(super) async fn last(pool: &Pool, table: &Table) -> Result<Option<Row>, sqlx::Error> {
    let sql = AssertSqlSafe(table.last());
    on!(pool, pool => {
        let row = sqlx::query(sql).fetch_optional(pool).await?;
        row.map(|row| taken!(row, table.key())).transpose()
    })
}

/// Adds rows, all or none.
pub(super) async fn insert(pool: &Pool, table: &Table, rows: &[Row]) -> Result<(), sqlx::Error> {
    on!(pool, pool => {
        let mut transaction = pool.begin().await?;
        for some in rows.chunks(TOGETHER) {
            let sql = AssertSqlSafe(table.insert(some.len()));
            let query = bound!(sqlx::query(sql), some.iter().flatten());
            query.execute(&mut *transaction).await?;
        }
        transaction.commit().await
    })
}

/// Takes all rows out of all these tables, all or none.
pub(super) async fn clear<'a>(
    pool: &Pool,
    tables: impl Iterator<Item = &'a Table>,
) -> Result<(), sqlx::Error> {
    on!(pool, pool => {
        let mut transaction = pool.begin().await?;
        for table in tables {
            let sql = AssertSqlSafe(table.clear());
            sqlx::query(sql).execute(&mut *transaction).await?;
        }
        transaction.commit().await
    })
}
